"""Relayouts in one process, with checks of calls, transfers of host arrays in pieces, and cached launches."""
