"""A method is refused, before any text is read, where it would read something else of its encoder than it says."""

import logging
from pathlib import Path
from typing import Any

import pytest

from cse_train import methods
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import Backbone, load_backbone
from cse_train.fields import ConfigError
from cse_train.training.fit import check_fit
from cse_train.training.loop import train
from tests.cse_train.encoders import CAUSAL, Make, maker, tokenizer_of

POOLED = ("simcse", "esimcse", "diffcse", "ct", "sbert", "mirrorbert", "whitening", "flow", "declutr")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory.mktemp("encoders"))


@pytest.fixture(scope="module")
def backbone(made: Make) -> Backbone:
    """A RoBERTa whose tokenizer puts nothing around a text."""
    return load_backbone(str(made("roberta", tokenizer_of(None, None))))


def problems(backbone: Backbone, method: str = "simcse", **settings: Any) -> list[str]:
    flat = {key.replace("__", "."): value for key, value in settings.items()}
    try:
        check_fit(parse_run({"method": method, "train.encoder": backbone.name, **flat}), backbone)
    except ConfigError as error:
        return error.problems
    return []


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_causal_encoder_has_no_cls(made, kind):
    for first in ("[CLS]", None):
        folder = made(kind, tokenizer_of(first, "[SEP]"))
        backbone = load_backbone(str(folder), 0.1)
        why = "which attends causally, so that position 0 sees itself alone"
        if first is None:
            why = "whose tokenizer puts no token such as [CLS] in front of a text"
        line = f"no first token: method.pooler=cls_train_only, train.encoder={folder}, {why}; set method.pooler to"
        assert problems(backbone) == [f"{line} mean, last, first_last or first_last_layer1"]
        assert problems(backbone, method__pooler="last") == []


@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "mpnet", "modernbert"]
)
def test_an_encoder_that_reads_both_ways_has_one(made, kind):
    assert problems(load_backbone(str(made(kind)), 0.1)) == []


def test_a_decoder_of_our_own_kind_has_none(made):
    (line,) = problems(load_backbone(str(made("bert", is_decoder=True))))
    assert "attends causally" in line


@pytest.mark.parametrize("method", POOLED)
def test_every_pooler_of_cls_is_refused_where_nothing_stands_first(backbone, method):
    (line, *_) = problems(backbone, method, method__pooler="cls_no_mlp")
    assert line.startswith("no first token: method.pooler=cls_no_mlp, ") and " last" in line.partition("; ")[2]


def test_methods_that_use_position_0_by_themselves_are_refused_too(backbone):
    for method, setting in (
        ("sgopt", "method=sgopt"),
        ("diffcse", "method.task=replaced_token"),
        ("d2cse", "method.framework=d"),
    ):
        lines = problems(backbone, method, **({} if method == "sgopt" else {"method__pooler": "mean"}))
        assert lines[0].startswith(f"no first token: {setting}, "), method


def test_edits_between_special_tokens_need_them_at_both_ends(made, backbone):
    front = load_backbone(str(made("roberta", tokenizer_of("[CLS]", None))))
    for method in ("esimcse", "mirrorbert", "promptbert", "declutr", "diffcse"):
        pooler = {} if method == "promptbert" else {"method__pooler": "mean"}
        for given, places in ((backbone, "in front of or behind"), (front, "behind")):
            lines = problems(given, method, **pooler)
            assert lines[-1].startswith("no special tokens: method") and f"special token {places} a text" in lines[-1]
    assert "no special tokens: method.augmentation=crop" in problems(front, method__augmentation="crop")[0]
    assert "no special tokens: train.length_buckets=4" in problems(front, train__length_buckets="4")[0]


NOISELESS = {
    "modernbert": {},
    "qwen3": {},
    "llama": {},
    "albert": {},
    "bloom": {"hidden_dropout": 0.0, "attention_dropout": 0.0},
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}


@pytest.mark.parametrize("kind", NOISELESS)
def test_equal_views_are_refused_and_train_dropout_makes_them_differ(made, kind, caplog):
    folder = str(made(kind, **NOISELESS[kind]))
    chosen = {"method__pooler": "last"}
    (line,) = problems(load_backbone(folder), **chosen)
    start = "no noise between the views: train.dropout=null, method.augmentation=none, "
    assert line == f"{start}train.encoder={folder}, whose own dropout is 0 everywhere; set train.dropout=0.1"
    assert problems(load_backbone(folder, 0.1), train__dropout=0.1, **chosen) == []
    assert problems(load_backbone(folder), method__augmentation="word_deletion", **chosen) == []
    assert problems(load_backbone(folder), method__objective="triplets", **chosen) == []
    with caplog.at_level(logging.WARNING):
        assert problems(load_backbone(folder, 0.0), train__dropout=0.0, **chosen) == []
    assert "no noise between the views: train.dropout=0.0" in caplog.text, "asked for, as in SimCSE's table"


def test_each_method_says_what_would_tell_its_views_apart(made):
    still = load_backbone(str(made("bert", **NOISELESS["bert"])))
    alone: dict[str, dict[str, Any]] = {
        "simcse": {"method__encoders": "two"},
        "esimcse": {"method__dup_rate": 0},
        "mirrorbert": {"method__span": 0},
        "promptbert": {"method__second_template": 'This sentence of "[X]" means [MASK].'},
        "consert": {"method__augmentation_1": "none", "method__augmentation_2": "none"},
        "diffcse": {},
        "dcpcse": {},
        "d2cse": {},
    }
    for method in set(methods.list_methods()) - {"infersent"}:
        lines = problems(still, method, **alone.get(method, {}))
        assert [line.partition(":")[0] for line in lines] == ["no noise between the views"] * (method in alone), method
        if method in alone:
            assert problems(still, method, train__dropout=0.0, **alone[method]) == []
    for method in ("esimcse", "mirrorbert", "promptbert", "consert"):
        assert problems(still, method) == [], f"{method} edits a view by default"
    assert problems(still, method__fixed_dropout=True) == [], "one pass for both views is asked for"


def test_a_rate_as_low_as_one_in_a_thousand_is_noise(made):
    for kind in ("bert", "qwen3"):
        assert problems(load_backbone(str(made(kind)), 0.001), method__pooler="last", train__dropout=0.001) == []


def test_a_causal_encoder_trains_with_the_last_token(made, text_file: Path, tmp_path: Path):
    folder = str(made("qwen3", tokenizer_of(None, "[SEP]")))
    shared = {"train.encoder": folder, "train.corpus": "file", "train.dev": "generated_dev:40", "train.examples": 32}
    flat = {"method": "simcse", **shared, "train.batch_size": 8, "train.evaluations": 2, "train.dropout": 0.1}
    paths = DataPaths(train_file=text_file)
    with pytest.raises(ConfigError, match="^no first token: "):
        train(parse_run(flat), paths, tmp_path / "cls", lambda point: False)
    assert not (tmp_path / "cls").exists()
    outcome = train(parse_run({**flat, "method.pooler": "last"}), paths, tmp_path / "last", lambda point: False)
    assert not outcome.stopped and outcome.points[0].metrics["alignment"] > 0
