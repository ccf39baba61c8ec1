"""The memory model: the vector clocks of threads, shadow memory, and the semantics of accesses."""
