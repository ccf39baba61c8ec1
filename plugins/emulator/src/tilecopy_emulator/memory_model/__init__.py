"""The memory model: the clocks of threads, shadow memory, and the semantics of accesses."""
