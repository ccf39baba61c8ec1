"""Copies that keep every element in its warp: the words that lanes exchange, and the shuffles."""
