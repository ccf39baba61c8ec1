"""The forms of ldmatrix and stmatrix, such as ``m8n8``. Each gives the lane and register of each matrix element."""

from __future__ import annotations

from tilecopy_core.plugin import S, TileLayout, frozen, laneid

LANES = 32
"""The number of threads that load or store a matrix: one warp."""
ROW_BYTES = 16
"""The size and the alignment of one row of a matrix (PTX ISA, ldmatrix)."""


@frozen
class MatrixForm:
    """A frozen record of one form of ldmatrix or stmatrix, such as ``m8n8.trans``.

    Attributes:
        shape: the modifiers of the opcode, with a placeholder for the number of matrices.
        rows: the lane and register element of a row's first element; a lane passes the address of each row.
        columns: the offset for an element's position in its row; beyond the size of a register, the instruction's next registers.
        most: matrices of one instruction.
    """

    shape: str
    rows: TileLayout
    columns: TileLayout
    most: int

    @property
    def name(self) -> str:
        """The name of the form in messages, such as ``m8n8.trans``."""
        return self.shape.partition(".x")[0] + (".trans" if ".trans" in self.shape else "")


TRANSPOSED = MatrixForm("m8n8.x{}.trans.shared.b16", S[(4, 2) : (1 @ laneid, 1)], S[8 : 4 @ laneid], 4)
LOADED_BYTES = MatrixForm("m16n16.x{}.trans.shared.b8", S[(4, 4) : (1 @ laneid, 1)], S[(2, 8) : (4, 4 @ laneid)], 2)
STORED_BYTES = MatrixForm("m16n8.x{}.trans.shared.b8", S[(4, 2) : (1 @ laneid, 1)], S[(2, 8) : (2, 4 @ laneid)], 4)


def forms_of(bits: int, *, store: bool, bytes_too: bool) -> list[MatrixForm]:
    """Return the forms for elements of ``bits`` bits. ``bytes_too`` adds the forms that transpose 8-bit elements."""
    register_elems = 32 // bits
    columns = S[(4, register_elems) : (1 @ laneid, 1)] if register_elems > 1 else S[4 : 1 @ laneid]
    forms = [MatrixForm("m8n8.x{}.shared.b16", S[8 : 4 @ laneid], columns, 4)]
    if bits == 16:
        forms.append(TRANSPOSED)
    if bits == 8 and bytes_too:
        forms.append(STORED_BYTES if store else LOADED_BYTES)
    return forms


FITTING = {8: ("m16n8k32", "int8"), 16: ("m16n8k16", "float16"), 32: ("m16n8k8", "float32")}
"""Width of an element -> the mma shape and dtype of a fragment that a row-major tile fits."""
