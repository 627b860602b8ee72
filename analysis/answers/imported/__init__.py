"""Imported runs as tables see them: another tool's, and those of a stranger's bundle.

Such runs are marked in `identity`. No run trained here can have one of their signatures, so an import replaces no
training.
"""

__all__ = ["IMPORTED", "cells", "metric", "strangers"]

IMPORTED = "imported"
"""Entry of a run's `identity` that names the tool which made it; runs trained here have none."""
