"""Types of settings, and of objects in files and databases."""

from collections.abc import Mapping
from typing import Any

Scalar = bool | int | float | str | None
"""Types that the value of a setting may have."""
Settings = Mapping[str, Scalar]
"""Dotted key -> value: a run's configuration, or the axes of a cell."""
Json = Mapping[str, Any]
"""Object of a JSON or YAML file, or row of a database, not yet checked."""
