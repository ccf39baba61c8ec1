"""The memories that threads access, and the checks that accesses are ordered."""
