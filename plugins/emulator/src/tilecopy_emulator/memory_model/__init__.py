"""Time: clocks of threads, stamps of bytes, and what an access says of its order."""
