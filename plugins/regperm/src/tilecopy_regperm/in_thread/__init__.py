"""Copies that keep every element in its thread. ``prmt`` instructions combine the bytes of registers."""
