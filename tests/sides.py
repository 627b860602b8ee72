"""Tests that use a command of a side, or describe the whole house: skipped where a side has been taken off."""

from pathlib import Path

import pytest

CSE = Path(__file__).resolve().parents[1] / "cse"
SIDES = ("compare", "site", "live_page", "importers", "trackers", "bundles", "doctor", "downloads")
"""Folders below `cse/` that can be taken off."""


def needs(*sides: str) -> pytest.MarkDecorator:
    """Mark of a test that types commands of these folders below `cse/`."""
    absent = [side for side in sides if not (CSE / side).is_dir()]
    return pytest.mark.skipif(bool(absent), reason=f"taken off here: {', '.join(absent)}")
