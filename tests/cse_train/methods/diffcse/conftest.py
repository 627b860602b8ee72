"""Batches and models of DiffCSE on a tiny encoder."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from torch import nn

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.methods import diffcse
from cse_train.methods.base import Batch, Share
from cse_train.methods.diffcse import DiffCSE
from cse_train.methods.options.diffcse import Config
from cse_train.text.corpora import open_source
from cse_train.text.tokens import TokenStore, open_store

ROWS = np.arange(8)


@pytest.fixture
def backbone(tiny_encoder: Path) -> Backbone:
    return load_backbone(str(tiny_encoder))


@pytest.fixture
def store(backbone: Backbone, text_file: Path) -> TokenStore:
    return open_store(open_source("file", DataPaths(train_file=text_file)), backbone.tokenizer, 16)


@pytest.fixture
def batch_of(backbone: Backbone, store: TokenStore):
    """(configuration, rows, rows of all ranks) -> a batch."""

    def collate(config: Config, rows: np.ndarray = ROWS, together: np.ndarray | None = None) -> Batch:
        share = Share(store, rows, rows if together is None else together, partial(random_streams.augmentation, 0, 0))
        return diffcse.DiffCSE.make_collate(config, backbone.tokenizer, 16)(share)

    return collate


@pytest.fixture
def model_of(backbone: Backbone):
    """Configuration -> a model in training mode, its new weights seeded, the backbone untouched."""

    def build(config: Config) -> DiffCSE:
        random_streams.seed_new_weights(0)
        return diffcse.DiffCSE.build(config, copy.deepcopy(backbone)).train()

    return build


@pytest.fixture
def still(tiny_encoder: Path):
    """Configuration -> a model without any dropout."""

    def build(config: Config) -> DiffCSE:
        random_streams.seed_new_weights(0)
        return diffcse.DiffCSE.build(config, load_backbone(str(tiny_encoder), dropout=0.0)).train()

    return build


@pytest.fixture
def step():
    """One forward pass under the dropout of a step."""

    def step(model: nn.Module, batch: Batch, index: int = 0):
        random_streams.seed_dropout(0, index, 0)
        return model(batch)

    return step
