"""Runs that were not trained here, as tables see them: another tool's, and those of a stranger's bundle.

They are marked in `identity`, and no signature of ours can be theirs: nothing is trained less because of them.
"""

__all__ = ["IMPORTED", "cells", "metric", "strangers"]

IMPORTED = "imported"
"""The entry of a run's `identity` that names the tool which made it; runs of ours have none."""
