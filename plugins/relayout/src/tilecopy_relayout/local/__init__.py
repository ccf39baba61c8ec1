"""Relayouts in one process: checked calls, host arrays in pieces, and cached launches."""
