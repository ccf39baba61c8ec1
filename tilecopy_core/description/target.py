"""GPU architectures: names, PTX ISA versions, shared-memory limits."""

from __future__ import annotations

from ..errors import TargetError, checked, did_you_mean, integer_in, one_of, shown
from ..errors.records import frozen

Version = tuple[int, int]

_SHARED_LIMIT_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227, 120: 99, 121: 99}
_VERSIONS: dict[int, dict[str, Version]] = {
    75: {"": (6, 3)},
    80: {"": (7, 0)},
    86: {"": (7, 1)},
    87: {"": (7, 4)},
    89: {"": (7, 8)},
    90: {"": (7, 8), "a": (8, 0)},
    100: {"": (8, 6), "a": (8, 6), "f": (8, 8)},
    103: {"": (8, 8), "a": (8, 8), "f": (8, 8)},
    110: {"": (9, 0), "a": (9, 0), "f": (9, 0)},
    120: {"": (8, 7), "a": (8, 7), "f": (8, 8)},
    121: {"": (8, 8), "a": (8, 8), "f": (8, 8)},
}
"""Architecture -> suffix -> the lowest PTX ISA version that knows the target."""
MBARRIER_TX_LIMIT = 2**20 - 1
"""The largest transaction count of one mbarrier phase, in bytes, and its largest arrival count (PTX ISA 9.7.13.15)."""
STATIC_SHARED_LIMIT_BYTES = 48 * 1024
"""The most shared memory that a module may declare statically (PTX ISA; larger needs ``.extern`` and an opt-in)."""


@frozen(repr=False)
class Target:
    """An architecture to lower for, such as ``sm_90a``, whose ``arch`` is 90.

    The ``suffix`` is ``""``, ``"a"`` (this architecture alone) or ``"f"`` (its family).
    """

    arch: int
    suffix: str = ""

    def __attrs_post_init__(self) -> None:
        arch, suffix = self.arch, self.suffix
        if type(arch) is not int or type(suffix) is not str or suffix not in _VERSIONS.get(arch, ()):
            raise TargetError(
                f"Target: no target has arch {shown(arch)} and suffix {shown(suffix)}; they are {', '.join(TARGETS)}"
            )

    def __str__(self) -> str:
        return f"sm_{self.arch}{self.suffix}"

    def __repr__(self) -> str:
        return f"Target('{self}')"

    @property
    def ptx_version(self) -> Version:
        """The lowest PTX ISA version that knows this target."""
        return _VERSIONS[self.arch][self.suffix]

    @property
    def shared_limit_bytes(self) -> int:
        """The most shared memory that one block can opt in to (CUDA programming guide, compute capabilities)."""
        return _SHARED_LIMIT_KIB[self.arch] * 1024

    def has(self, feature: str) -> bool:
        """Whether it has the instructions of a feature. Raises TargetError for a name that is not in :data:`FEATURES`."""
        one_of(*FEATURES).check(feature, "has", "feature", TargetError)
        return str(self) in FEATURES[feature]

    @checked(TargetError, major=integer_in(0, 99), minor=integer_in(0, 9))
    def runs_on(self, major: int, minor: int) -> bool:
        """Whether a module for this target runs on a GPU of that compute capability."""
        found = major * 10 + minor
        if self.suffix == "a":
            return found == self.arch
        return found >= self.arch and (self.suffix == "" or found // 10 == self.arch // 10)


def target_of(value: Target | str) -> Target:
    """The target of a name such as ``"sm_90a"``. Raises TargetError where the name is not one of :data:`TARGETS`."""
    if isinstance(value, Target):
        return value
    if not isinstance(value, str) or value not in _BY_NAME:
        near = did_you_mean(value, TARGETS)
        raise TargetError(f"target {shown(value)} is unknown{near}; the targets are {', '.join(TARGETS)}")
    return _BY_NAME[value]


_ALL = [Target(arch, suffix) for arch, versions in _VERSIONS.items() for suffix in versions]
_BY_NAME = {str(target): target for target in _ALL}
TARGETS: tuple[str, ...] = tuple(_BY_NAME)
"""Every target that tilecopy can lower for."""


_FROM_SM_90, _FROM_SM_100 = (TARGETS[TARGETS.index(first) :] for first in ("sm_90", "sm_100"))
FEATURES: dict[str, tuple[str, ...]] = {
    "cluster": _FROM_SM_90,
    "matrices_of_bytes": tuple(f"sm_{arch}{suffix}" for arch in (100, 103, 110, 120, 121) for suffix in "af"),
    "multicast": _FROM_SM_90,
    "swizzle_atoms": _FROM_SM_100,
    "tcgen05": tuple(f"sm_{arch}{suffix}" for arch in (100, 103, 110) for suffix in "af"),
    "tma": _FROM_SM_90,
    "wgmma": ("sm_90a",),
}
"""Feature -> the targets that have its instructions (PTX ISA, "Target ISA notes"; ``ptx/opcodes.txt``).

``swizzle_atoms`` are the swizzles of a tensor map whose atoms have 32 or 64 bytes."""


def targets_with(feature: str) -> str:
    """The targets that have a feature, in words."""
    names = FEATURES[feature]
    return f"{names[0]} or newer" if names in (_FROM_SM_90, _FROM_SM_100) else " or ".join(names)
