"""GPU architectures: names, PTX ISA versions and shared-memory limits."""

from __future__ import annotations

from ..errors import TargetError, did_you_mean, short_repr
from ..errors.attrs_classes import frozen

Version = tuple[int, int]

_ARCHITECTURES: dict[int, tuple[int, dict[str, Version]]] = {
    75: (64, {"": (6, 3)}),
    80: (163, {"": (7, 0)}),
    86: (99, {"": (7, 1)}),
    87: (163, {"": (7, 4)}),
    89: (99, {"": (7, 8)}),
    90: (227, {"": (7, 8), "a": (8, 0)}),
    100: (227, {"": (8, 6), "a": (8, 6), "f": (8, 8)}),
    103: (227, {"": (8, 8), "a": (8, 8), "f": (8, 8)}),
    110: (227, {"": (9, 0), "a": (9, 0), "f": (9, 0)}),
    120: (99, {"": (8, 7), "a": (8, 7), "f": (8, 8)}),
    121: (99, {"": (8, 8), "a": (8, 8), "f": (8, 8)}),
}
"""Architecture -> the shared memory in KiB that one block can opt in to (CUDA programming guide, compute capabilities), and
suffix -> the lowest PTX ISA version that knows the target."""
FEATURES = {
    "cluster": "sm_90",
    "cp.async": "sm_80",
    "cp.async.bulk": "sm_90",
    "matrices_of_bytes": "sm_100f sm_110f sm_120f",
    "multicast": "sm_90",
    "stmatrix": "sm_90",
    "swizzle_atoms": "sm_100",
    "tcgen05": "sm_100f sm_110f",
    "tma": "sm_90",
    "wgmma": "sm_90a",
}
"""Feature -> the targets that have its instructions, any of them, as :meth:`Target.is_or_follows` reads them (PTX ISA, "Target ISA notes").

``swizzle_atoms`` are the swizzles of a tensor map whose atoms have 32 or 64 bytes."""
MBARRIER_TX_LIMIT = 2**20 - 1
"""The largest transaction count of one mbarrier phase, in bytes, and its largest arrival count (PTX ISA 9.7.13.15)."""


@frozen(repr=False, cache_hash=True)  # tables of what targets have look them up
class Target:
    """A frozen record of a GPU architecture that PTX is written for. The target ``sm_90a`` has the ``arch`` 90.

    The ``suffix`` is ``""``, ``"a"`` (this architecture alone) or ``"f"`` (its family).
    """

    arch: int
    suffix: str = ""

    def __attrs_post_init__(self) -> None:
        arch, suffix = self.arch, self.suffix
        if type(arch) is not int or type(suffix) is not str or suffix not in _ARCHITECTURES.get(arch, (0, ()))[1]:
            raise TargetError(
                f"Target: no target has arch {short_repr(arch)} and suffix {short_repr(suffix)}; the targets are {', '.join(TARGETS)}"
            )

    def __str__(self) -> str:
        return f"sm_{self.arch}{self.suffix}"

    def __repr__(self) -> str:
        return f"Target('{self}')"

    @property
    def ptx_version(self) -> Version:
        """The lowest PTX ISA version that supports this target."""
        return _ARCHITECTURES[self.arch][1][self.suffix]

    @property
    def shared_limit_bytes(self) -> int:
        """The maximum number of bytes of shared memory that one CTA can opt in to."""
        return _ARCHITECTURES[self.arch][0] * 1024

    def has(self, feature: str) -> bool:
        """Return True if the target has a feature. Raises TargetError if ``feature`` is unknown."""
        names = FEATURES.get(feature, feature).split()
        if feature not in FEATURES and feature not in TARGETS:
            raise TargetError(
                f"feature {short_repr(feature)} is unknown{did_you_mean(feature, FEATURES)}; the features are {', '.join(FEATURES)} and the targets, such as 'sm_90'"
            )
        return any(self.is_or_follows(target_of(name)) for name in names)

    def is_or_follows(self, first: Target) -> bool:
        """Return whether this target has every feature of the target ``first``.

        A target without a suffix covers all newer ones; one with suffix f covers newer ones of its family that have a suffix;
        one with suffix a covers itself.
        """
        if first.suffix == "a":
            return self == first
        in_family = bool(self.suffix) and self.arch // 10 == first.arch // 10
        return self.arch >= first.arch and (not first.suffix or in_family)

    def runs_on(self, major: int, minor: int) -> bool:
        """Return whether a module for this target runs on a GPU with compute capability ``major.minor``."""
        capability = major * 10 + minor
        if self.suffix == "a":
            return capability == self.arch
        return capability >= self.arch and (self.suffix == "" or capability // 10 == self.arch // 10)


def target_of(value: Target | str) -> Target:
    """Return the target with a name such as ``"sm_90a"``. Raises TargetError if the name is not in :data:`TARGETS`."""
    if isinstance(value, Target):
        return value
    if not isinstance(value, str) or value not in _BY_NAME:
        near = did_you_mean(value, TARGETS)
        raise TargetError(f"target {short_repr(value)} is unknown{near}; the targets are {', '.join(TARGETS)}")
    return _BY_NAME[value]


_ALL = [Target(arch, suffix) for arch, (_, versions) in _ARCHITECTURES.items() for suffix in versions]
_BY_NAME = {str(target): target for target in _ALL}
TARGETS: tuple[str, ...] = tuple(_BY_NAME)
"""Every target that tilecopy can lower for."""


def targets_with(feature: str) -> str:
    """Return a phrase that lists the targets with a feature, such as ``"sm_90 or newer"``."""
    first = FEATURES.get(feature, feature)
    if first in TARGETS and not target_of(first).suffix:
        return f"{first} or newer"
    return " or ".join(target for target in TARGETS if target_of(target).has(feature))
