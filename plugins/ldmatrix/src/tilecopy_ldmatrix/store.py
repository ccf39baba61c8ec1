"""The variant stmatrix of copy. It stores matrices from register fragments of tensor cores to shared memory."""

from tilecopy_core.plugin import Variant

from . import tilecopy_emit, tilecopy_partition, tilecopy_predicate

__all__ = ["tilecopy_emit", "tilecopy_partition", "tilecopy_predicate", "variant"]

variant = Variant(
    name="stmatrix",
    op="copy",
    priority=20,
    summary="stmatrix stores of matrix fragments to shared memory; transposed if the layouts require it",
    spaces=(("local", "shared"),),
    features=("stmatrix",),
    completion="barrier",
    threads="all",
)
