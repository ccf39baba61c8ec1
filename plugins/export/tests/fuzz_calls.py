"""Starting calls of exports for the argument fuzzing of tests/fuzz."""

import tilecopy_export as export

MODULES = (export,)


def starting_calls(w):
    export.cuda_function(w.plan, "row", None)
    export.cuda_header([w.plan.cuda("row")])
    export.function_of(w.plan, "row", None)


UNCALLED = {"function_of makes it": "AsmOperand CopyFunction RegisterMove ScalarArgument BufferArgument"}
