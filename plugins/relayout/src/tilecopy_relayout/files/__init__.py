"""Relayouts of array files, piece by piece."""
