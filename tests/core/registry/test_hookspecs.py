"""The hook specifications have a name, arguments and a docstring each."""

from __future__ import annotations

import pluggy

from tilecopy_core.registry.hookspecs import HOOKS


def test_every_hook_is_a_specification() -> None:
    from tilecopy_core.registry import hookspecs

    manager = pluggy.PluginManager("tilecopy")
    manager.add_hookspecs(hookspecs)
    names = {*HOOKS, hookspecs.DISPATCH}
    assert {name for name in vars(hookspecs) if name.startswith("tilecopy_")} == names
    assert all(hasattr(manager.hook, name) for name in names)
    assert all(getattr(hookspecs, name).__doc__ for name in names)
