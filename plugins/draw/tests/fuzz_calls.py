"""Starting calls of draw for the argument fuzzing of tests/fuzz."""

import tilecopy as tc
import tilecopy_draw

MODULES = (tilecopy_draw,)


def starting_calls(w):
    tilecopy_draw.draw(
        tc.TileLayout(tc.S[8, 8]), "banks", select=None, compare_with=tc.TileLayout(tc.S[8, 8]), width=960
    )
    tilecopy_draw.draw(tc.TileLayout(tc.S[8, 8])).save("picture.svg")
    tilecopy_draw.draw(tc.TileLayout(tc.S[8, 8])).bytes_as(".svg")


UNCALLED = {"draw makes it": "Picture"}
