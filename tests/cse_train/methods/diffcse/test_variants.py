"""Every row of DiffCSE's tables 3 to 8 and 15 trains; what does not go together is one line."""

import copy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train import random_streams
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.fields import ConfigError
from cse_train.methods import diffcse
from cse_train.methods.base import Share
from cse_train.methods.options.diffcse import Config
from cse_train.text.corpora import open_source
from cse_train.text.tokens import open_store

ROWS = np.arange(8)
SHIPPED = partial(Config, generator="words-l1-h64")
TABLES = {
    "T3_without_contrastive": {"contrastive": False},
    "T3_next": {"source": "next"},
    "T3_both": {"source": "both"},
    "T3_masked_lm_same": {"task": "masked_lm"},
    "T3_masked_lm_next": {"task": "masked_lm", "source": "next"},
    "T3_masked_lm_both": {"task": "masked_lm", "source": "both"},
    "T3_corrective_lm": {"task": "corrective_lm"},
    "T4_replace": {"masking_ratio": 0.15},
    "T4_insert": {"operator": "insert", "masking_ratio": 0.15},
    "T4_delete": {"operator": "delete", "masking_ratio": 0.15},
    "T4_all": {"operator": "all", "masking_ratio": 0.15},
    "T5_without_batch_norm": {"projector": "mlp"},
    "T5_simcse_with_batch_norm": {"task": "none"},
    "T6_bigger_generator": {"generator": "words-l2-h128"},
    "T7_half_masked": {"masking_ratio": 0.5},
    "T8_tenth": {"lambda_weight": 0.1},
    **{
        f"T15_{extra}_{operator}": {"task": "none", "extra": extra, "operator": operator, "masking_ratio": 0.15}
        for extra in ("positives", "negatives")
        for operator in ("replace", "insert", "delete")
    },
    "pooler_mean": {"pooler": "mean"},
    "extra_with_mean": {"pooler": "mean", "task": "none", "extra": "negatives"},
}


@pytest.mark.parametrize("row", TABLES)
def test_every_row_trains_all_it_has(batch_of, model_of, row: str, step) -> None:
    config = SHIPPED(**TABLES[row])
    model, batch = model_of(config), batch_of(config, np.array([0, 9, 18, 27]))
    output = step(model, batch)
    output.loss.backward()
    assert torch.isfinite(output.loss) and all(torch.isfinite(v) for v in output.metrics.values())
    assert not [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    assert {"loss", "positive_cosine", "uniformity"} <= output.metrics.keys()
    assert ("replaced_fraction" in output.metrics) is (config.task != "none" or config.extra != "none")


def test_one_word_sentences_train_with_every_operator(backbone: Backbone, tmp_path: Path, step) -> None:
    (tmp_path / "short.txt").write_text("river\nstone\nbridge\nold\nmarket\n", encoding="utf8")
    store = open_store(open_source("file", DataPaths(train_file=tmp_path / "short.txt")), backbone.tokenizer, 16)
    share = Share(store, np.arange(4), np.arange(4), partial(random_streams.augmentation, 0, 0))
    for operator in ("replace", "insert", "delete", "all"):
        config = SHIPPED(operator=operator)
        batch = diffcse.DiffCSE.make_collate(config, backbone.tokenizer, 16)(share)
        assert batch.inputs["edited"].lengths_N.min() >= 3
        assert torch.isfinite(step(diffcse.DiffCSE.build(config, copy.deepcopy(backbone)).train(), batch).loss)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"contrastive": False, "task": "none"}, "nothing to train: method.contrastive=False, method.task=none"),
        ({"contrastive": False, "lambda_weight": 0.0}, "nothing to train: "),
        ({"extra": "positives"}, "two uses of the edited sentence: method.extra=positives, method.task=replaced_token"),
        ({"task": "masked_lm", "operator": "insert"}, "no such task: method.task=masked_lm, method.operator=insert"),
        ({"task": "none", "source": "next"}, "no conditional task: method.source=next"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(backbone: Backbone, options: dict, line: str) -> None:
    for call in (partial(diffcse.DiffCSE.build, Config(**options), backbone),
                 partial(diffcse.DiffCSE.make_collate, Config(**options), backbone.tokenizer, 16)):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            call()
        assert str(caught.value).startswith(line) and "\n" not in str(caught.value)


def test_scoring_needs_neither_discriminator_nor_generator(backbone: Backbone) -> None:
    model = diffcse.DiffCSE.build(Config(), backbone, training=False)
    assert not [name for name in model.state_dict() if name.startswith(diffcse.DiffCSE.TRAINING_ONLY)]
    assert model.eval().encode(pack_lists([[2, 9, 3]])).shape == (1, 32)


def test_the_generator_is_an_input_of_the_run() -> None:
    assert SHIPPED().inputs() == {"generator": load_backbone("words-l1-h64").content_hash}
