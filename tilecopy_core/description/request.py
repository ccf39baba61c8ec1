"""Records of a copy (CopyRequest), of a variant (Variant) and of the variant's answers (Accept, Decline)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any

import attrs

from ..errors import (
    ANY_INTEGER,
    FLAG,
    LayoutError,
    PluginError,
    RequestError,
    Validator,
    attribute,
    did_you_mean,
    integer_in,
    optional,
    short_repr,
)
from ..errors.attrs_classes import frozen
from ..errors.lazy_numpy import np
from ..integers.expr import plain
from ..layout import TileLayout, along
from ..memory.buffers import SPACES, Region, symbolic
from ..memory.out_of_bounds import Outside, outside_of
from .scope import MAX_CTA_THREADS, ActiveThreads, Scope, differs_within
from .target import FEATURES, TARGETS, Target, target_of, targets_with

MOST_REGISTERS, SM_REGISTERS = 255, 65_536
"""Registers of 32 bits that a thread has at most, and those that the CTAs of a multiprocessor share, on every architecture."""
OPS = ("copy", "copy_async")
RESERVED = frozenset({"dst", "src", "op", "scope", "target", "variant", "active", "registry", "outside", "cluster"})
"""Parameters of ``plan`` and of the builder's copies: no option can have these names."""
_ENUMERATE_LIMIT = 1 << 24

COMPLETIONS: dict[str, tuple[str, ...]] = {
    "barrier": ("the copying threads may use the data at once; other threads need a barrier (cta_sync) first",),
    "cp_async_group": (
        "call cp_async_commit() in the threads that copied",
        "call cp_async_wait(n) in the same threads; n newer groups may stay pending",
        "put a barrier (cta_sync) before other threads read",
    ),
    "mbarrier": (
        "call arrive_expect_tx(bytes) on the mbarrier in one thread of the receiving CTA",
        "call wait(phase) on the mbarrier in every thread that reads the data",
    ),
    "bulk_group": (
        "before the copy: call fence_proxy_async() in the threads that wrote the source, then put a barrier",
        "call bulk_commit() in the thread that copied",
        "call bulk_wait(n) in the same thread; n newer groups may stay pending; read=True waits only until the source has been read",
    ),
    "tcgen05_commit": (
        "call tcgen05_commit(mbar) in the thread that copied",
        "call wait(phase) on that mbarrier in every thread that reads the data or overwrites the source",
    ),
    "wgmma_group": (
        "execute wgmma.commit_group.sync.aligned in all threads of the warpgroup",
        "execute wgmma.wait_group.sync.aligned n in all threads of the warpgroup; n newer groups may stay pending",
    ),
}
"""How the caller learns that a copy is done: the words that :attr:`Variant.completion` may have, each with its steps in
order (PTX ISA, "Asynchronous operations"). A variant may use a word of its own, and then gives the steps."""
IN_A_KERNEL = "in a kernel"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_text, value))


def _tuple(value: Any) -> Any:
    """Return a list as a tuple, and anything else as it is, for the record to refuse."""
    return tuple(value) if isinstance(value, list) else value


def _field(rule: str, fits: Callable[[Any], bool] = _is_text, **more: Any) -> Any:
    """Return a field of a record of the contract, which holds what fits: by default a text."""
    validator = Validator(rule, fits)

    def check(record: Any, attribute: attrs.Attribute[Any], value: object) -> None:
        if not validator.fits(value):
            named = f" {short_repr(record.name)}" if attribute.name != "name" and hasattr(record, "name") else ""
            raise PluginError(
                f"{type(record).__name__}{named}: {attribute.name} must be {rule}, got {short_repr(value)}"
            )

    return attrs.field(validator=check, **more)


def _default_steps(variant: Variant) -> tuple[str, ...]:
    if variant.completion == "undeclared":
        return ("the variant does not declare its completion; see the documentation of its package",)
    return COMPLETIONS.get(variant.completion, ()) if isinstance(variant.completion, str) else ()


@frozen
class Accept:
    """The answer of a variant that can copy. A ``priority`` replaces the priority in the variant's record.

    A lower priority leaves the copy to another variant that does it equally well. Raises PluginError if the priority is not an integer.
    """

    priority: int | None = _field("a 64-bit integer or None", optional(ANY_INTEGER).fits, default=None)


@frozen
class Decline:
    """The answer of a variant that cannot do a copy, with the reason. Raises PluginError if the reason is not a string."""

    reason: str = _field("a non-empty string that names the operand, its value and the broken rule")

    def __bool__(self) -> bool:
        return False


Verdict = Accept | Decline


@frozen
class Option:
    """A frozen record of one option of a variant: name, types and default. Dispatch rejects a value of another type.

    Raises PluginError where a field is malformed.

    Attributes:
        name: the keyword of ``copy``/``copy_async``/``plan``.
        types: what its value is an instance of (a bool is not an int). A kernel's integers are ``(int, tilecopy_core.Expr)``.
        meaning: what it is, such as ``"the rank of the destination CTA"``; messages say ``option NAME must be MEANING``.
        required: whether the copy cannot do without it. ``"in a kernel"``: a plan with no kernel around it, where
            ``request.active.cta_threads`` is None, may leave it out; a copy in a kernel may not.
        default: what the variant takes when it is left out (:meth:`Variant.option` gives it).
        ignorable: whether the copy is right without it: variants that do not declare the option are asked without it, where every
            installed one of the op that declares it says so.
    """

    name: str = _field("an identifier such as 'mbar'", lambda value: isinstance(value, str) and value.isidentifier())
    types: tuple[type, ...] = _field(
        "a type or a tuple of types",
        lambda values: values != () and all(isinstance(kind, type) for kind in values),
        converter=lambda value: value if isinstance(value, tuple) else (value,),
    )
    meaning: str = _field("a non-empty string that says what the value is")
    required: bool | str = _field(
        f"True, False or {IN_A_KERNEL!r}", lambda value: FLAG.fits(value) or value == IN_A_KERNEL, default=False
    )
    default: Any = None
    ignorable: bool = _field(FLAG.rule, FLAG.fits, default=False)

    def __attrs_post_init__(self) -> None:
        if self.default is not None and (self.required or not self.fits(self.default)):
            kinds = " or ".join(kind.__name__ for kind in self.types)
            typed = f"the default must be of type {kinds}, got {short_repr(self.default)}"
            none = f"the default must be None, because the option is required, got {short_repr(self.default)}"
            raise PluginError(f"Option {self.name}: {none if self.required else typed}")

    def fits(self, value: object) -> bool:
        """Return True if a value has one of the option's types. An integer must also fit in 64 bits."""
        if isinstance(value, int) and value.bit_length() > 64:
            return False
        return isinstance(value, self.types) and (not isinstance(value, bool) or bool in self.types)


@frozen
class Variant:
    """A frozen record of what a variant does and needs. A plugin has this record as its attribute ``variant``.

    Before dispatch calls a hook it checks every request against the record: op, spaces, architecture, threads and options.
    A hook need not check them again. Raises PluginError where a field is malformed.

    Attributes:
        name: the same as its entry point.
        op: ``copy`` or ``copy_async``.
        priority: an integer; higher is asked first, equal priorities go by name.
        summary: one line.
        spaces: the ``(source, destination)`` pairs that it takes.
        options: the options that it takes; any other is declined.
        completion: how the caller learns that a copy is done: a key of :data:`COMPLETIONS` or a word of its own. By default
            ``barrier`` for ``copy``, and ``undeclared`` for ``copy_async``.
        completion_steps: what the caller does, in order; by default the steps that :data:`COMPLETIONS` has for the word.
        threads: which threads must reach a copy: ``all`` of its scope, exactly ``one`` of the CTA, or ``any``.
        edges: whether it lowers a copy whose regions may overhang (``request.outside``); the others are never asked for one.
        features: what a target must have: names of :data:`FEATURES` such as ``"tcgen05"``, or of targets such as ``"sm_90"``, which stands
            for newer ones too.
    """

    name: str = _field("a string such as 'tma', the name of the entry point")
    op: str = _field(f"one of {', '.join(OPS)}")
    priority: int = _field("a 64-bit integer", ANY_INTEGER.fits)
    summary: str = _field(
        "one line that says what the variant does", lambda value: _is_text(value) and len(value.splitlines()) == 1
    )
    spaces: tuple[tuple[str, str], ...] = _field(
        "a tuple of (source, destination) pairs of memory spaces",
        lambda pairs: (
            isinstance(pairs, tuple) and pairs != () and all(_are_texts(pair) and len(pair) == 2 for pair in pairs)
        ),
        converter=lambda value: tuple(map(_tuple, value)) if isinstance(value, (list, tuple)) else value,
    )
    options: tuple[Option, ...] = _field(
        "a tuple of Option records",
        lambda values: isinstance(values, tuple) and all(isinstance(option, Option) for option in values),
        default=(),
        converter=_tuple,
    )
    completion: str = _field(
        "a string such as 'mbarrier'",
        default=attrs.Factory(lambda self: "barrier" if self.op == "copy" else "undeclared", takes_self=True),
    )
    completion_steps: tuple[str, ...] = _field(
        f"a non-empty tuple of strings (what the caller does) unless completion is one of {', '.join(COMPLETIONS)}",
        lambda value: _are_texts(value) and value != (),
        default=attrs.Factory(_default_steps, takes_self=True),
        converter=_tuple,
    )
    threads: str = _field("'all', 'one' or 'any'", lambda value: value in ("all", "one", "any"), default="all")
    edges: bool = _field(FLAG.rule, FLAG.fits, default=False)
    features: tuple[str, ...] = _field(
        "a tuple of feature names, such as ('tma',)", _are_texts, default=(), converter=_tuple
    )

    def __attrs_post_init__(self) -> None:
        names = sorted([*RESERVED, *[option.name for option in self.options]])
        if twice := [name for name in names if names.count(name) > 1]:
            raise PluginError(
                f"Variant {self.name!r}: an option must not have the name of another option or of a parameter of the copy, got {twice[0]!r}"
            )

    def why_unusable(self) -> str | None:
        """Return a message if this tilecopy_core does not support an op, space or feature of the record, else None."""
        spaces = [("the space", "spaces", space, SPACES) for pair in self.spaces for space in pair]
        features = [("the feature", "features", feature, (*FEATURES, *TARGETS)) for feature in self.features]
        for what, plural, name, known in [("op", "ops", self.op, OPS), *spaces, *features]:
            if name not in known:
                near = did_you_mean(name, known)
                return f"{what} {name!r} in the variant's record is unknown; the {plural} are {', '.join(known)}{near}"
        return None

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the targets that have every feature that the variant needs, oldest first."""
        return tuple(name for name in TARGETS if self.why_not_on(target_of(name)) is None)

    def why_not_on(self, target: Target) -> str | None:
        """Return a message if a target lacks a feature that the variant needs, else None."""
        for feature in self.features:
            if not target.has(feature):
                lacks = f"has no {feature}" if feature in FEATURES else "is not supported"
                return f"target {target} {lacks}: {self.name} needs {targets_with(feature)}"
        return None

    def option(self, request: CopyRequest, name: str) -> Any:
        """Return the option's value in a request, or the default. Raises PluginError for an undeclared option."""
        for option in self.options:
            if option.name == name:
                value = request.options.get(name)
                return option.default if value is None else value
        raise PluginError(f"Variant {self.name!r} does not declare an option {short_repr(name)}")


_set_fields = Variant.__init__


@wraps(_set_fields)
def _init(self: Variant, *values: Any, **fields: Any) -> None:
    """Reject the arguments that ``features`` replaced in tilecopy-core 0.2."""
    for name in sorted({"min_arch", "specific", "instructions"}.intersection(fields)):
        example = "features=('cp.async',) or features=('sm_90',)"
        raise TypeError(f"Variant has no argument {name!r}: use features=, for example {example}")
    _set_fields(self, *values, **fields)


Variant.__init__ = _init  # type: ignore[method-assign]


@frozen(eq=False, repr=False)
class Options(Mapping[str, Any]):
    """A read-only mapping from the names of a request's options to their values."""

    _values: Mapping[str, Any] = attrs.field(factory=dict, converter=MappingProxyType)

    def __reduce__(self) -> tuple[Any, ...]:
        return Options, (dict(self._values),)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self._values))


def _options(value: Any) -> Options:
    if isinstance(value, Options):
        return value
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise RequestError(f"options must be a mapping from option names to values, got {short_repr(value)}")
    return Options({name: _as_region(option_value) for name, option_value in value.items()})


def _as_region(value: Any) -> Any:
    """Return the region of an object with ``as_region()``, a framework's integer as an int, and anything else unchanged."""
    as_region = attribute(value, "as_region")
    try:
        return plain(value) if as_region is None else as_region()
    except Exception as error:  # an object's own
        raise RequestError(
            f"options: as_region() of {short_repr(value)} must return a region, but it raised an error"
        ) from error


@frozen(kw_only=True)
class CopyRequest:
    """A frozen record of one copy that dispatch lowers: op, regions, scope, target and options.

    Raises RequestError for an unknown op or scope, an operand that is not a region, or a fill that the dtype does not hold,
    and TargetError for an unknown target.

    Attributes:
        op: ``copy`` (done when the instruction stream goes on) or ``copy_async`` (the caller waits).
        scope: the threads that do it together.
        active: which threads of the CTA reach it.
        options: further options of ``copy``/``copy_async``, by name and read-only; a variant is asked only when it
            declares all of them.
        outside: what stands for source elements outside their array, given as ``"zero"``, a number or ``"keep"``; None:
            both regions lie inside.
        cluster: the number of CTAs of a cluster in the launch: in a kernel what ``build(cluster=)`` says, 1 without it. None
            where the launch is not known, as in a plan or an exported copy; what depends on it is accepted there.
        cta_group: the CTAs, 1 or 2, that the kernel's tensor memory is allocated for (``tcgen05_alloc``); None where it is
            not known or nothing is allocated.
        min_ctas_per_sm: CTAs that a multiprocessor must hold at once: in a kernel what ``build(min_ctas_per_sm=)`` says, else 1.
        may_exceed_bounds: whether ``outside`` is given and a region cannot be shown to lie inside its buffer's shape.
    """

    op: str
    dst: Region
    src: Region
    scope: Scope
    target: Target = attrs.field(converter=target_of)
    active: ActiveThreads = attrs.field(factory=ActiveThreads)
    options: Mapping[str, Any] = attrs.field(factory=Options, converter=_options, hash=False)
    outside: Outside | None = None
    cluster: int | None = attrs.field(default=None, validator=optional(integer_in(1, 2**31 - 1)))
    cta_group: int | None = attrs.field(default=None, validator=optional(integer_in(1, 2)))
    min_ctas_per_sm: int = attrs.field(default=1, validator=integer_in(1, 32))
    may_exceed_bounds: bool = attrs.field(default=False, init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.op, str) or self.op not in OPS:
            raise RequestError(
                f"op {short_repr(self.op)} is unknown; the ops are {', '.join(OPS)}{did_you_mean(self.op, OPS)}"
            )
        if not isinstance(self.scope, Scope) or self.scope.kind == "cluster":
            raise RequestError(
                f"scope must be thread(), warp(), warpgroup() or cta(THREADS), got {short_repr(self.scope)}"
            )
        for operand, region in (("destination", self.dst), ("source", self.src)):
            if not isinstance(region, Region):
                raise RequestError(
                    f"{self.op}: {operand} must be a region such as buffer[0:8, :], got {short_repr(region)}"
                )
        if not isinstance(self.active, ActiveThreads):
            raise RequestError(f"{self.op}: active must be an ActiveThreads, got {short_repr(self.active)}")
        if self.outside is not None:
            object.__setattr__(self, "outside", outside_of(self.outside, self.dst.buffer.dtype))
            sides = ((region, dim) for region in (self.dst, self.src) for dim in range(len(region.starts)))
            object.__setattr__(self, "may_exceed_bounds", any(any(region.exceeds(dim)) for region, dim in sides))

    def __str__(self) -> str:
        outside = "" if self.outside is None else f", outside {self.outside}"
        cluster = "" if self.cluster in (None, 1) else f", cluster of {self.cluster}"
        copied = f"{self.op} {_shown_region(self.src)} -> {_shown_region(self.dst)}"
        return f"{copied}, scope {self.scope}, {self.target}{cluster}{outside}"

    @property
    def most_registers(self) -> int:
        """The most 32-bit registers per thread: 255, or the thread's share of the SM's 65,536 registers if less."""
        threads = self.active.cta_threads or min(self.scope.threads, MAX_CTA_THREADS)
        return min(MOST_REGISTERS, SM_REGISTERS // (threads * self.min_ctas_per_sm))

    @property
    def spaces(self) -> tuple[str, str]:
        """The memory spaces of source and destination."""
        return self.src.buffer.space, self.dst.buffer.space

    @property
    def fill(self) -> tuple[int, ...] | None:
        """The 32-bit words that fill elements out of bounds, repeated as needed. None if the copy has no fill value."""
        return self.outside.words if self.outside is not None and self.outside.kind == "fill" else None

    @property
    def relaxed(self) -> bool:
        """True if other CTAs may store to the same elements (option ``relaxed``)."""
        return self.options.get("relaxed") is True

    def side_in(self, space: str) -> Region:
        """Return the operand in a memory space, or the destination if both operands are in that space."""
        return self.dst if self.dst.buffer.space == space else self.src


def _shown_region(region: Region) -> str:
    extents = "x".join(map(str, region.extents))
    return f"{region.buffer.dtype} {region.buffer.space} {region.buffer.name}[{extents}]"


def check_request(request: CopyRequest, *, bounds: bool = True) -> None:
    """Raise an error if a copy request is invalid for every variant.

    Raises RequestError for dtypes or extents that differ, and LayoutError where the destination's layout puts two elements
    in one place, or, if ``bounds`` are checked, a region leaves its buffer without ``outside=``.
    """
    operands = (request.dst, request.src) if request.outside is None else ()
    for region in (*operands, *request.options.values()) if bounds else ():
        if isinstance(region, Region):
            region.check_inside()
    if reason := valid_copy(request):
        raise RequestError(f"{request}: {reason}")
    if request.may_exceed_bounds and (symbolic(request.dst.buffer.shape) or not why_aliasing(request.dst.buffer[()])):
        return  # coordinates outside have no place of their own, and nothing is written there
    if why := why_aliasing(request.dst):
        raise LayoutError(f"{request}: destination {why}")


def valid_copy(request: CopyRequest) -> str | None:
    """Return a message if source and destination differ in dtype, or in extents that are not 1, else None."""
    dst, src = request.dst, request.src
    dst_dtype, src_dtype = dst.buffer.dtype, src.buffer.dtype
    if dst_dtype is not src_dtype and dst_dtype != src_dtype:  # nearly always one record of the table
        return (
            f"destination {dst} has dtype {dst_dtype} but source {src} has {src_dtype}; a copy does not convert dtypes"
        )
    equal = dst.extents == src.extents  # nearly always
    if not equal and [size for size in dst.extents if size != 1] != [size for size in src.extents if size != 1]:
        return f"destination extents {dst.extents} and source extents {src.extents} must be equal (extents of 1 are ignored)"
    return None


def why_aliasing(region: Region) -> str | None:
    """Return a message if two elements of a region may share an address, else None. Symbolic strides are ignored."""
    layout = region.sliced_layout() or region.buffer.layout
    if not isinstance(layout, TileLayout):
        return None  # the box of an array whose extents are not known is always a layout
    tile = layout.unswizzled
    steps = sorted((it for it in tile.shard if it.extent > 1 and isinstance(it.stride, int)), key=lambda it: it.stride)
    if still := next((it for it in steps if it.stride == 0), None):
        return (
            f"{region} has extent {still.extent} with stride 0, so {still.extent} of its elements share one address; "
            "use a nonzero stride, or R[...] for a replica"
        )
    reached: dict[str, int] = {}
    for it in steps:
        if it.stride <= reached.get(it.axis.name, 0):
            break
        reached[it.axis.name] = reached.get(it.axis.name, 0) + (it.extent - 1) * it.stride
    else:
        return None  # every stride is past all that the smaller ones reach: one place each
    tile = TileLayout.of(steps)
    if tile.size > _ENUMERATE_LIMIT:
        return f"{region} has overlapping strides, so all addresses are compared: it must have at most {_ENUMERATE_LIMIT} elements, got {tile.size}"
    flat: Any = np.arange(tile.size)
    places, scale = np.zeros_like(flat), 1
    for axis in tile.axes:
        values: Any = along(steps, axis, flat)
        places += values * scale
        scale *= int(values.max(initial=0)) + 1
    if (count := len(set(places.tolist()))) != tile.size:
        return f"{region} must have one address per element, got {count} addresses for {tile.size} elements (layout {tile})"
    return None


def why_not_shared(request: CopyRequest) -> str | None:
    """Return a message if a region's start or layout may differ between threads of the scope, else None."""
    for region in (request.dst, request.src):
        placed_by = region.buffer.placed_by()
        for what, other, values in (("layout", "other elements", placed_by), ("start", "another box", region.starts)):
            for value in values:
                if differs_within(value, request.scope):
                    where = f"the start {value}" if what == "start" else f"{value} in the layout {region.buffer.layout}"
                    return (
                        f"{where} of {region} differs between the threads of a {request.scope.kind}, so each thread would copy "
                        f"{other}; use scope thread, or a {what} that is equal in all threads of the scope"
                    )
    return None
