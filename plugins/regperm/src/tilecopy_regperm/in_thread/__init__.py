"""Copies that keep every element in its thread: which registers, and the ``prmt`` that put their bytes together."""
