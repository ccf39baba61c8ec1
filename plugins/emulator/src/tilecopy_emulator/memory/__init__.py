"""The memories that threads reach, and whether accesses to them are in order."""
