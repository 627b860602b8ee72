"""Public names for authors of methods and suites; they stay, and nothing else of `cse_train` is promised.

A method is a subclass of `Method` beside its settings, a `Config` that subclasses `Options`; docs/your_method.md shows
how to write one. Names that need torch are imported on first access, so that a file with a `Config` alone loads without
torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cse_train.fields import Added, ConfigError, Range
from cse_train.plugins.options import Options

if TYPE_CHECKING:
    from cse_train.distributed import all_gather_rows, gather_with_grad, mean_over_ranks
    from cse_train.encoder.backbone import Backbone
    from cse_train.encoder.packing import Packed, pack, pack_lists
    from cse_train.encoder.pooling import SentencePooler
    from cse_train.losses import info_nce, view_statistics
    from cse_train.methods.base import Batch, Encode, Method, Share, StepOutput
    from cse_train.results import Protocol, Score
    from cse_train.text.tokens import TokenStore

LAZY = {
    "cse_train.encoder.backbone": ("Backbone",),
    "cse_train.distributed": ("all_gather_rows", "gather_with_grad", "mean_over_ranks"),
    "cse_train.encoder.packing": ("Packed", "pack", "pack_lists"),
    "cse_train.losses": ("info_nce", "view_statistics"),
    "cse_train.methods.base": ("Batch", "Encode", "Method", "Share", "StepOutput"),
    "cse_train.encoder.pooling": ("SentencePooler",),
    "cse_train.results": ("Protocol", "Score"),
    "cse_train.text.tokens": ("TokenStore",),
}
"""Module -> names that `cse_train.api` imports from it on first access; the TYPE_CHECKING imports list the same."""
HOMES = {name: module for module, names in LAZY.items() for name in names}
"""Public name -> the module from which `__getattr__` imports it."""

__all__ = [
    "Added",
    "Backbone",
    "Batch",
    "ConfigError",
    "Encode",
    "Method",
    "Options",
    "Packed",
    "Protocol",
    "Range",
    "Score",
    "SentencePooler",
    "Share",
    "StepOutput",
    "TokenStore",
    "all_gather_rows",
    "gather_with_grad",
    "info_nce",
    "mean_over_ranks",
    "pack",
    "pack_lists",
    "view_statistics",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"cse_train.api has no {name}; it has {', '.join(__all__)}")
    globals()[name] = value = getattr(importlib.import_module(HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
