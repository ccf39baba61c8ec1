"""tilecopy-testkit: a conformance test suite for variants.

:class:`VariantSuite` is a class of pytest tests to subclass. :func:`requests` returns hypothesis strategies of whole kernels.
:func:`expected` is the NumPy oracle. ``tilecopy testkit campaign`` runs thousands of copies for every installed variant.
``tilecopy new-variant`` writes a package with a new variant.
"""

from typing import TYPE_CHECKING

from tilecopy.harness import COMPLETIONS, Step

from tilecopy_core.registry import lazy_attributes

from .case_harness import CaseHarness, arguments_of, arrays_of
from .case_space import CaseSpace, Draw
from .copy_case import AffineStart, AffineTerm, CopyCase, Operand
from .counterexample import Counterexample
from .oracle import expected
from .variant_under_test import VariantUnderTest

if TYPE_CHECKING:
    from .strategies import requests
    from .suite import VariantSuite, for_all
    from .vectors import RecordedLaunch, recorded_vectors

__version__ = "0.2.0"
__getattr__, __dir__ = lazy_attributes(  # these modules need hypothesis or pytest, or few programs need them
    __name__,
    {".strategies": "requests", ".suite": "VariantSuite for_all", ".vectors": "RecordedLaunch recorded_vectors"},
)
__all__ = ["AffineStart", "AffineTerm", "COMPLETIONS", "CaseHarness", "CaseSpace", "CopyCase", "Counterexample", "Draw"]
__all__ += ["Operand", "RecordedLaunch", "Step", "VariantSuite", "VariantUnderTest", "__version__", "arguments_of"]
__all__ += ["arrays_of", "expected", "for_all", "recorded_vectors", "requests"]
