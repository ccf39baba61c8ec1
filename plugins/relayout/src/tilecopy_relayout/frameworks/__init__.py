"""A relayout as the lazy or recorded operation of a framework: torch's operators, Dask's blocks."""
