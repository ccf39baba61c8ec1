"""The first-party variants, for mypy: `nox -s lint` compares the variant and the three hooks of each with the types of the contract."""

from __future__ import annotations

import tilecopy_bulk.store
import tilecopy_dsmem
import tilecopy_gmem_smem
import tilecopy_ldgsts
import tilecopy_ldmatrix.store
import tilecopy_ragged.asynchronous
import tilecopy_reg
import tilecopy_regperm.shfl
import tilecopy_tcgen05_cp
import tilecopy_tcgen05_ldst
import tilecopy_tma.store

from tilecopy_core.plugin import VariantPlugin

VARIANTS: list[VariantPlugin] = [
    tilecopy_bulk,
    tilecopy_bulk.store,
    tilecopy_dsmem,
    tilecopy_gmem_smem,
    tilecopy_ldgsts,
    tilecopy_ldmatrix,
    tilecopy_ldmatrix.store,
    tilecopy_ragged,
    tilecopy_ragged.asynchronous,
    tilecopy_reg,
    tilecopy_regperm,
    tilecopy_regperm.shfl,
    tilecopy_tcgen05_cp,
    tilecopy_tcgen05_ldst.load,
    tilecopy_tcgen05_ldst.store,
    tilecopy_tma,
    tilecopy_tma.store,
]
