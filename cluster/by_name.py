"""What an option names as `module:name`, so that a process imports it only where it is used."""

import importlib
from typing import Any


def named(reference: str) -> Any:
    """The object that `module:name` names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
