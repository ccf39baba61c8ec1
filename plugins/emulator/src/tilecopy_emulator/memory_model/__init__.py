"""The memory model: clocks of threads, stamps of bytes, and the semantics of accesses."""
