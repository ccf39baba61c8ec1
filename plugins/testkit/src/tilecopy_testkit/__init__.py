"""tilecopy-testkit: proves a variant.

:class:`VariantSuite` is a class of pytest tests to subclass; :func:`requests` are hypothesis strategies of whole kernels;
:func:`expected` is the NumPy oracle. ``python -m tilecopy_testkit campaign`` runs many thousands of copies over every
installed variant, ``tilecopy new-variant`` writes the package of a new one.
"""

from .completion import COMPLETIONS, Step
from .description import Description, Operand, Start, Term
from .finding import Finding
from .kernels import Around, arguments_of, arrays_of
from .oracle import expected
from .strategies import requests
from .subject import Subject
from .suite import VariantSuite, for_all

__version__ = "0.1.0"

__all__ = [
    "COMPLETIONS",
    "Around",
    "Description",
    "Finding",
    "Operand",
    "Start",
    "Step",
    "Subject",
    "Term",
    "VariantSuite",
    "__version__",
    "arguments_of",
    "arrays_of",
    "expected",
    "for_all",
    "requests",
]
