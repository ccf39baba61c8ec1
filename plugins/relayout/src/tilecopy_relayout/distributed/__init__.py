"""Relayouts of arrays that are sharded over the ranks of a process group."""
