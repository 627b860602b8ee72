"""A set small enough to check by hand, and the tiny encoder loaded."""

from pathlib import Path

import numpy as np
import pytest

from cse_train.config import DataPaths
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.modules.backbone import Backbone, load_backbone


@pytest.fixture
def pairs() -> Pairs:
    """60 generated pairs and one that repeats a text."""
    made = load_pairs("generated_dev:60", DataPaths())
    left, right = (*made.left, "the king"), (*made.right, made.left[0])
    return Pairs("made", left, right, np.append(made.gold, 2.0), "hash")


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    loaded = load_backbone(str(tiny_encoder))
    loaded.encoder.eval()
    return loaded
