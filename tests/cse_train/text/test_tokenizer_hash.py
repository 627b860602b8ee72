"""A tokenizer's hash follows what decides the ids of a text, and no release of the library that writes it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from cse_train.encoder.folders import find_weights
from cse_train.text import tokens
from cse_train.text.tokens import state_hash

SHIPPED = "5bb68c26"
"""How the hash of the shipped tokenizer begins, in the signatures of all runs of version 0.1.0."""


def shipped() -> Tokenizer:
    return Tokenizer.from_file(str(find_weights() / "tokenizer" / "tokenizer.json"))


def pairs() -> Tokenizer:
    """As RoBERTa's."""
    made = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4}, [("a", "b")]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    made.post_processor = processors.RobertaProcessing(("</s>", 4), ("<s>", 3))
    made.add_tokens([AddedToken("zz")])
    return made


def pieces() -> Tokenizer:
    """As T5's."""
    made = Tokenizer(models.Unigram([("a", -1.5), ("<unk>", 0.0)], 1))
    rules = normalizers.Replace(Regex(" +"), " "), normalizers.Lowercase()
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), *rules])
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Digits(True)])
    return made


def words() -> Tokenizer:
    """As of word vectors."""
    made = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True)
    made.post_processor = processors.TemplateProcessing("a $A a", None, [("a", 0)])
    return made


KINDS = [shipped, pairs, pieces, words]
Kind = Callable[[], Tokenizer]


class LaterRelease:
    """A release that orders keys otherwise, and writes one more key with a default in each component."""

    DEFAULTS: Mapping[str, object] = {"fold_width": True, "limits": {"most": 9}}

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    @classmethod
    def from_str(cls, text: str) -> "LaterRelease":
        return cls(json.loads(text))

    def to_str(self) -> str:
        return json.dumps(self._written(self.state))

    def _written(self, value: Any, inside: bool = False) -> Any:
        if isinstance(value, list):
            return [self._written(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        parts = {
            k: v if k in tokens.TOKENIZER_TABLES else self._written(v, k == "added_tokens") for k, v in value.items()
        }
        added = self.DEFAULTS if inside or "type" in value or "model" in value else {}
        return dict(reversed(({**added, **parts}).items()))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "Tokenizer", LaterRelease)


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_with_more_defaults_in_another_order_gives_the_same_hash(kind: Kind, later: None) -> None:
    text = kind().to_str()
    written = LaterRelease.from_str(text).to_str()
    assert written.count("fold_width") >= 3 and written != text
    assert state_hash(written) == state_hash(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [(), ("model",), ("added_tokens", 0), ("post_processor",), ("pre_tokenizer",)])
def test_what_is_not_its_default_counts(kind: Kind, place: tuple[str | int, ...], later: None) -> None:
    state = json.loads(LaterRelease.from_str(kind().to_str()).to_str())
    part = tokens._look_up(state, place)
    if not part:
        pytest.skip("this tokenizer has no such part")
    part["fold_width"] = False
    assert state_hash(json.dumps(state)) != state_hash(kind().to_str())


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_that_decides_ids_counts(kind: Kind) -> None:
    """Each value of the state, changed alone."""
    state = json.loads(kind().to_str())
    before, changed = state_hash(json.dumps(state)), 0
    for place, value in leaves(state):
        if place[0] in ("truncation", "padding", "version"):
            continue
        *way, key = place
        tokens._look_up(state, way)[key] = other(value)
        assert state_hash(json.dumps(state)) != before, place
        tokens._look_up(state, way)[key] = value
        changed += 1
    assert changed >= 8 and state_hash(json.dumps(state)) == before


def leaves(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    """Each plain value with its place; of long tables the first and the last."""
    if not isinstance(value, dict | list) or not value:
        return [(place, value)]
    items = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
    items = items if len(items) < 40 else [items[0], items[-1]]
    return [leaf for key, item in items for leaf in leaves(item, (*place, key))]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def test_merges_count_alike_as_texts_and_as_pairs() -> None:
    """Releases before 0.20 wrote them as texts."""
    state = json.loads(pairs().to_str())
    assert state["model"]["merges"] == [["a", "b"]]
    state["model"]["merges"] = ["a b"]
    assert state_hash(json.dumps(state)) == state_hash(pairs().to_str())
    state["model"]["merges"] = ["b a"]
    assert state_hash(json.dumps(state)) != state_hash(pairs().to_str())


def test_all_components_of_the_installed_release_are_listed() -> None:
    """A component that says more than `KEYS` under a later release is handled; one of 0.23 must lose nothing."""
    for kind in KINDS:
        state = json.loads(kind().to_str())
        del state["truncation"], state["padding"]
        assert tokens.canonical(json.loads(kind().to_str())) == state


def test_the_shipped_tokenizer_keeps_its_hash(tmp_path: Path) -> None:
    assert state_hash(shipped().to_str()).startswith(SHIPPED)
