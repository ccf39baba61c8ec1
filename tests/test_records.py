"""tilecopy_core.plugin.frozen: classes as attrs.frozen makes them."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest

from tilecopy_core.plugin import frozen


@frozen
class Tile:
    rows: int
    columns: int = 8
    label: str = attrs.field(default="", eq=False)
    hidden: int = attrs.field(default=0, repr=False)


@attrs.frozen
class Reference:
    rows: int
    columns: int = 8
    label: str = attrs.field(default="", eq=False)
    hidden: int = attrs.field(default=0, repr=False)


@frozen
class Nothing:
    pass


@frozen(eq=False)
class ByIdentity:
    rows: int


@frozen
class OwnMethods:
    rows: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


def test_records_are_equal_by_the_fields_that_count() -> None:
    assert Tile(4, label="a") == Tile(4, label="b") != Tile(5, label="a")
    assert hash(Tile(4, label="a")) == hash(Tile(4, label="b"))
    assert Tile(4, hidden=1) != Tile(4) and Tile(4) != Reference(4)
    assert Nothing() == Nothing() and hash(Nothing()) == hash(Nothing())
    one = ByIdentity(4)
    assert one == one != ByIdentity(4)
    assert OwnMethods(4) == 5 and hash(OwnMethods(4)) == 7 and repr(OwnMethods(4)) == "own"


def test_records_look_as_those_of_attrs() -> None:
    assert repr(Tile(4, 2, "x", 3)) == repr(Reference(4, 2, "x", 3)).replace("Reference", "Tile")
    assert repr(Nothing()) == "Nothing()"


def test_records_are_frozen_and_copied_as_those_of_attrs() -> None:
    tile = Tile(4, 2, "x", 3)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        tile.rows = 5  # type: ignore[misc]
    assert not hasattr(tile, "__dict__")
    assert attrs.asdict(tile) == attrs.asdict(Reference(4, 2, "x", 3)) and attrs.evolve(tile, rows=1) == Tile(
        1, 2, "x", 3
    )
    for again in (copy.copy(tile), copy.deepcopy(tile), pickle.loads(pickle.dumps(tile))):
        assert again == tile and again.label == "x"
