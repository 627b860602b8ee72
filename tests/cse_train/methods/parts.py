"""What a step of a method takes: its model in training mode and a batch."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from cse_train import random_streams
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.methods.base import Batch, Share, load_method
from cse_train.text.corpora import open_source
from cse_train.text.tokens import TokenStore, open_store
from cse_train.training.batches import Batches


def parts_of(
    settings: dict[str, Any],
    file: Path,
    rows: np.ndarray,
    dropout: float | None = 0.0,
    together: np.ndarray | None = None,
    **options: object,
) -> tuple[RunConfig, nn.Module, Batch, TokenStore, Any]:
    """A run with these options of its method, its model, a batch of these rows of the file, its store and tokenizer.

    `together`: the rows of all ranks.
    """
    run = parse_run(settings | {f"method.{name}": value for name, value in options.items()})
    backbone = load_backbone(run.train.encoder, dropout)
    batches = Batches.open(run, DataPaths(train_file=file), backbone)
    random_streams.seed_new_weights(0)
    model = load_method(run.method).build(run.options, backbone).train()
    stream = partial(random_streams.augmentation, 0, 0)
    batch = batches.collate(Share(batches.store, rows, rows if together is None else together, stream))
    return run, model, batch, batches.store, backbone.tokenizer


def batch_of(method: Any, config: object, backbone: Backbone, file: Path, seed: int = 0) -> Batch:
    """The batch that a method's class makes of the first six rows of a text file, each cut to 16 tokens."""
    store = open_store(open_source("file", DataPaths(train_file=file)), backbone.tokenizer, 16)
    rows = np.arange(6)
    stream = partial(random_streams.augmentation, seed, 0)
    return method.make_collate(config, backbone.tokenizer, 16)(Share(store, rows, rows, stream))
