"""What a setting may be, and what files and databases hold."""

from collections.abc import Mapping
from typing import Any

Scalar = bool | int | float | str | None
"""The value of a setting."""
Settings = Mapping[str, Scalar]
"""Dotted key -> value: a run's configuration, or the axes of a cell."""
Json = Mapping[str, Any]
"""An object of a JSON or YAML file, or a database's row, which nobody has looked at yet."""
