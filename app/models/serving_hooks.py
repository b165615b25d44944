"""Callbacks from the model registry into app/predictions: drop a cached model or lookup, read a shadow's comparison."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Serving:
    """Functions of the serving part of this process; `create_app` sets them."""

    forget: Callable[[str], None]
    """Remove a model (by id) from the cache."""
    forget_reference: Callable[[str], None]
    """Discard the cached lookup of a reference."""
    shadow_stats: Callable[[str, int | None], dict[str, Any] | None]
    """Return the comparison of an alias's shadow of this version; None: nothing was compared."""
