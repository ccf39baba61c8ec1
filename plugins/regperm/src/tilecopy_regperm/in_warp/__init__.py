"""Copies that keep every element in its warp: which lanes exchange which words, and by which shuffles."""
