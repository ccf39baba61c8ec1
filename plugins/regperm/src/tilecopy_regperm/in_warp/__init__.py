"""Copies that keep every element in its warp. Lanes exchange words by shuffles."""
