"""Plugins: the registry of variants, the hook specifications, and the loading of entry points."""

from typing import TYPE_CHECKING

from ..errors.fork_lock import LOCK
from .distributions import Installed, canonical, distributions
from .entry_points import (
    PluginWarning,
    SlowPluginWarning,
    Source,
    WrapperError,
    by_name,
    installed_sources,
    load_unique,
    short_error,
    warn_outside,
)
from .installable import KnownVariant, known_variants
from .lazy_names import exporter, lazy_attributes
from .version import __version__

if TYPE_CHECKING:
    from .hook_calls import Plugin
    from .hookspecs import VARIANTS_GROUP
    from .registry import Registry, default_registry
else:  # pluggy is imported with the first dispatch
    __getattr__, __dir__ = lazy_attributes(
        __name__, {".hook_calls": "Plugin", ".hookspecs": "VARIANTS_GROUP", ".registry": "Registry default_registry"}
    )

__all__ = ["Installed", "KnownVariant", "LOCK", "Plugin", "PluginWarning", "SlowPluginWarning", "Registry", "Source"]
__all__ += ["VARIANTS_GROUP", "WrapperError", "__version__", "by_name", "canonical", "default_registry"]
__all__ += ["distributions", "exporter", "installed_sources", "known_variants", "load_unique", "lazy_attributes"]
__all__ += ["short_error", "warn_outside"]
