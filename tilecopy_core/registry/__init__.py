"""What finds, loads, wraps and asks plugins: the registry of variants, the hookspecs, and the loading of entry points."""

from typing import TYPE_CHECKING

from .lazy_names import names_later

if TYPE_CHECKING:
    from .entry_points import (
        PluginWarning,
        Source,
        WrapperError,
        by_name,
        canonical,
        installed,
        load_only,
        shown_error,
        warn_outside,
    )
    from .hook_calls import Plugin
    from .hookspecs import VARIANTS_GROUP
    from .installable import KnownVariant, known_variants
    from .lazy_names import exporter
    from .process_lock import LOCK, once
    from .registry import Registry, default_registry
    from .version import __version__
else:  # the core's lower modules use this room's lazy names and lock without the registry
    __getattr__ = names_later(
        __name__,
        {
            "KnownVariant": ".installable",
            "LOCK": ".process_lock",
            "Plugin": ".hook_calls",
            "PluginWarning": ".entry_points",
            "Registry": ".registry",
            "Source": ".entry_points",
            "VARIANTS_GROUP": ".hookspecs",
            "WrapperError": ".entry_points",
            "__version__": ".version",
            "by_name": ".entry_points",
            "canonical": ".entry_points",
            "default_registry": ".registry",
            "exporter": ".lazy_names",
            "installed": ".entry_points",
            "known_variants": ".installable",
            "load_only": ".entry_points",
            "once": ".process_lock",
            "shown_error": ".entry_points",
            "warn_outside": ".entry_points",
        },
    )

__all__ = [
    "Plugin",
    "PluginWarning",
    "Registry",
    "Source",
    "VARIANTS_GROUP",
    "WrapperError",
    "default_registry",
    "installed",
    "load_only",
]
__all__ += [
    "KnownVariant",
    "LOCK",
    "__version__",
    "by_name",
    "canonical",
    "exporter",
    "known_variants",
    "names_later",
    "once",
    "shown_error",
    "warn_outside",
]
