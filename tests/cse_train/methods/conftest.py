"""What the tests of methods share."""

from pathlib import Path

import pytest

from cse_train.encoder.backbone import Backbone, load_backbone


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    """The tiny encoder without dropout."""
    return load_backbone(str(tiny_encoder), dropout=0.0)
