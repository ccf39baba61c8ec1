"""Symbolic integers as text of another language."""

from __future__ import annotations

from collections.abc import Callable

from ..expr import Atom, FloorDiv, Int, Mod, Product, Symbol, Xor, constant_of, terms_of


def written_as_cpp(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """C++ of 64 bits: quotients and remainders by ``tilecopy::quotient`` and ``tilecopy::remainder``, which round down.

    Args:
        value: what is written.
        name_of: the variable of a symbol.
    """
    return _written(
        value, lambda found: f"(int64_t){name_of(found)}", "tilecopy::quotient({}, {})", "tilecopy::remainder({}, {})"
    )


def written_as_python(value: Int, name_of: Callable[[Symbol], str]) -> str:
    """Python, in which ``//`` and ``%`` round down."""
    return _written(value, name_of, "({} // {})", "({} % {})")


def _written(value: Int, symbol: Callable[[Symbol], str], quotient: str, remainder: str) -> str:
    def atom(found: Atom) -> str:
        if isinstance(found, Symbol):
            return symbol(found)
        if isinstance(found, (FloorDiv, Mod)):
            return (quotient if isinstance(found, FloorDiv) else remainder).format(total(found.dividend), found.by)
        assert isinstance(found, (Product, Xor))
        sign = "*" if isinstance(found, Product) else "^"
        return f"({total(found.left)} {sign} {total(found.right)})"

    def total(number: Int) -> str:
        parts = [atom(a) if c == 1 else f"{c} * {atom(a)}" for a, c in terms_of(number)]
        if constant_of(number) or not parts:
            parts.append(str(constant_of(number)))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(parts) == 1 else f"({text})"

    return total(value)
