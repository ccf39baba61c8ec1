"""Copies that keep every element in its thread: the registers, and the ``prmt`` instructions that combine their bytes."""
