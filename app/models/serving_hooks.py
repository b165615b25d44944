"""Functions of app/predictions that the model registry calls: forget a cached model, read the counts of a shadow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Serving:
    """Functions of the serving part of this process; `create_app` fills them in."""

    forget: Callable[[str], None]
    """Stop answering from a model (by its id) at once."""
    forget_reference: Callable[[str], None]
    """Ask the database again what a reference means."""
    shadow_stats: Callable[[str, int | None], dict[str, Any] | None]
    """How the shadow of an alias, of this version, compares so far; None: it has compared nothing."""
