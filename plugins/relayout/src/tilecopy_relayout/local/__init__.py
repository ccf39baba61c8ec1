"""Relayouts in one process: checks of calls, cached launches, and transfers of host arrays in pieces."""
