"""PTX of NVRTC: correct CUDA C++ runs clean and right, and each defect is reported."""

from __future__ import annotations

from pathlib import Path

import pytest
import tilecopy as tc
from tilecopy_test_helpers import corpus
from tilecopy_test_helpers.corpus.cuda.sources import SOURCES, Cuda
from tilecopy_test_helpers.corpus.model import Case, Text
from tilecopy_test_helpers.corpus.runner import run
from tilecopy_test_helpers.mentions import mentions

FOLDER = Path(corpus.__file__).parent / "cuda"


def case_of(cuda: Cuda) -> Case:
    return Case(
        name=cuda.name,
        rule=cuda.why,
        body="",
        arrays=cuda.arrays,
        scalars=cuda.scalars,
        grid=cuda.grid,
        block=cuda.block,
        gives=cuda.gives,
    )


def text_of(cuda: Cuda, ending: str) -> Text:
    return Text(cuda.name, (FOLDER / f"{cuda.name}{ending}").read_text(), {})


@pytest.mark.parametrize("cuda", [pytest.param(cuda, id=cuda.name) for cuda in SOURCES])
def test_correct_cuda_is_clean(cuda: Cuda) -> None:
    case = case_of(cuda)
    case.check(run(case, text_of(cuda, ".ptx")))


@pytest.mark.parametrize("cuda", [pytest.param(cuda, id=cuda.name) for cuda in SOURCES if cuda.racy])
def test_racy_cuda_is_reported(cuda: Cuda) -> None:
    with pytest.raises(tc.HazardError) as caught:
        run(case_of(cuda), text_of(cuda, ".racy.ptx"))
    message = str(caught.value)
    assert caught.value.kind in ("race", "poison"), message
    assert mentions(caught.value.line).search(message)
    names = [part.split(":")[0] for part in cuda.arrays.split()]
    where = f"{cuda.name}_param_{names.index(cuda.where)}" if cuda.where in names else cuda.where
    assert where in message
