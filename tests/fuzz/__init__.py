"""Argument fuzzing: odd values in place of each argument of each public callable.

Each package has ``fuzz_calls*.py`` beside its tests:

- ``starting_calls(w)`` is a list of working calls, one or more of each public name. It never runs: ``f(x)`` is evaluated as
  ``partial(f, x)`` when its test asks for it, so a name that is gone fails one test. ``w`` is a new :class:`Objects`.
- ``OPERATIONS``: expressions with a public object ``a`` and any operand ``b``; ``UNCALLED``: public names without a call, by
  the reason.
- ``MODULES``: the public modules; ``CLASSES``: classes that are public without a name in those.

The test of a name replaces one argument at a time, defaults included, then each value inside a tuple, list or dict, and
asserts:

- The call succeeds or raises a TilecopyError. What an object of the caller raises may pass through.
- The work is bounded: calls are counted (``MAX_CALLS``), and memory is limited (``MAX_BYTES``).
- A call that raises has written nothing: its arrays and all files are as before. A HazardError is exempt, because the kernel
  already runs.

The number and the names of the arguments stay as they are: Python's own TypeError for a wrong call is not a fault.
"""
