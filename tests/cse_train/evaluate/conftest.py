"""A set small enough to check by hand, and the tiny encoder loaded."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.evaluate.pairs import Pairs, load_pairs
from cse_train.evaluate.vectors import TextModel
from tests.cse_train.evaluate.small_tasks import counter, seeded_apart, small

__all__ = ["counter", "seeded_apart", "small"]


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


@dataclass(frozen=True)
class MadeModel(TextModel):
    """A `TextModel` without an encoder: bags of words thrown into 16 boxes."""

    name: str = "made"
    pooler: str = "boxes"
    max_length: int = 512
    content_hash: str = "none"

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 16), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                code = zlib.crc32(word.encode())
                row[code % 16] += 1 - 2 * (code >> 8 & 1)
        return rows


@pytest.fixture(scope="session")
def made_model() -> MadeModel:
    return MadeModel()
