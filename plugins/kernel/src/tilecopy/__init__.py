"""tilecopy describes a tile copy by two regions and a scope, lowers it to PTX, and builds kernels around tile copies.

What users import: ``import tilecopy as tc``. It has every name of the core (:mod:`tilecopy_core`), and kernels:
:class:`KernelBuilder` records one, ``build`` lowers it, and calling the built kernel runs it on an installed executor.
Importing this package loads no plugin and nothing of CUDA.
"""

from typing import TYPE_CHECKING

import tilecopy_core
from tilecopy_core.registry import lazy_attributes

from .errors import AssemblerError, HazardError, LaunchError

__all__ = ["AssemblerError", "BuiltKernel", "Comparison", "Cost", "HazardError", "KernelBuilder", "LaunchError"]
__all__ += ["Mbarrier", "Value", "compare", "cost", "cuda_header", "load_kernel", "mma_fragment", "ptx_text"]
__all__ += ["tile_fragment"]
__all__ += tilecopy_core.__all__

if TYPE_CHECKING:
    from tilecopy_core import *  # noqa: F403
    from tilecopy_partitions import mma_fragment, tile_fragment

    from .costs import Comparison, Cost, compare, cost
    from .cuda_cpp_export import cuda_header
    from .kernel.barriers import Mbarrier
    from .kernel.builder import KernelBuilder
    from .kernel.built import BuiltKernel
    from .kernel.load import load_kernel
    from .kernel.values import Value
    from .module_text import ptx_text
else:  # with a __getattr__, a type checker would accept every name
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        {
            "tilecopy_core": " ".join(tilecopy_core.__all__),
            "tilecopy_partitions": "mma_fragment tile_fragment",
            ".costs": "Comparison Cost compare cost",
            ".cuda_cpp_export": "cuda_header",
            ".kernel.barriers": "Mbarrier",
            ".kernel.builder": "KernelBuilder",
            ".kernel.built": "BuiltKernel",
            ".kernel.load": "load_kernel",
            ".kernel.values": "Value",
            ".module_text": "ptx_text",
        },
    )
