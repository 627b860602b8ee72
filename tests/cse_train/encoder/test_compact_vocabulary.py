"""A run that carries the corpus's word embeddings alone against the same run with the whole vocabulary."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from cse_train.checkpoint import read_best
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder import compact_vocabulary
from cse_train.encoder.compact_vocabulary import CompactEmbedding, compact
from cse_train.encoder.encoder import Encoder
from cse_train.training.loop import Outcome, Session, train

WORD = "encoder.word.weight"
RUNS = {
    "simcse": {},
    "esimcse": {"method_momentum": 0.9, "method_momentum_init": "random"},
    "declutr": {"method_objective": "contrastive"},
    "ct": {},
    "consert": {},
    "sgopt": {"method_train_embeddings": True},
    "isbert": {},
}
FULL = [
    ("simcse", {"train_weight_decay": 0.01}),
    ("simcse", {"method_mlm_weight": 0.1}),
    ("simcse", {"method_augmentation": "mlm"}),
    ("esimcse", {"method_extension": "stop_word"}),
    ("declutr", {}),
    ("diffcse", {}),
    ("d2cse", {}),
    ("dcpcse", {}),
    ("mirrorbert", {}),
]


@pytest.fixture
def run_of(tiny_settings: Callable[..., dict], text_file: Path) -> Callable[..., Outcome]:
    def run_one(folder: Path, method: str, stop: int | None = None, **changes: object) -> Outcome:
        settings = tiny_settings(method, train_evaluations=4, **changes)
        return train(parse_run(settings), DataPaths(train_file=text_file), folder, lambda point: point.step == stop)

    return run_one


def losses(outcome: Outcome) -> list[float]:
    return [point.metrics["loss"] for point in outcome.points]


def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every run of this context trains the whole vocabulary."""
    monkeypatch.setattr(compact_vocabulary, "compact", lambda model, ids: None)
    return monkeypatch


@pytest.mark.parametrize("method", list(RUNS))
def test_the_checkpoint_equals_full_training(
    method: str, run_of: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = run_of(tmp_path / "small", method, **RUNS[method])
    with monkeypatch.context() as context:
        without(context)
        full = run_of(tmp_path / "full", method, **RUNS[method])
    assert losses(small) == pytest.approx(losses(full), abs=1e-5)
    ours, theirs = read_best(tmp_path / "small")[2], read_best(tmp_path / "full")[2]
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, atol=1e-4, rtol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_rows_that_no_line_uses_stay(run_of: Callable[..., Outcome], tmp_path: Path, tiny_encoder: Path) -> None:
    from safetensors.torch import load_file

    run_of(tmp_path, "simcse")
    begun = load_file(tiny_encoder / "model.safetensors")["bert.embeddings.word_embeddings.weight"]
    moved = (read_best(tmp_path)[2][WORD] != begun).any(1)
    assert 20 < int(moved.sum()) < 120 < len(begun)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_either_kind_of_run_goes_on_from_the_others_checkpoint(
    first: bool,
    second: bool,
    run_of: Callable[..., Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    updates: list[int],
) -> None:
    whole = run_of(tmp_path / "whole", "simcse")
    for small, stop in ((first, 10), (second, None)):
        with monkeypatch.context() as context:
            if not small:
                without(context)
            ended = run_of(tmp_path / "halves", "simcse", stop=stop)
    assert updates == [*range(20), *range(20)], "the second half begins at update 10"
    assert losses(ended) == pytest.approx(losses(whole), abs=1e-5)


@pytest.mark.parametrize(("method", "changes"), FULL)
def test_refused_where_it_would_change_a_number(
    method: str, changes: dict, tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path
) -> None:
    session = opened(tiny_settings(method, **changes), text_file, tmp_path)
    assert not any(isinstance(module, CompactEmbedding) for module in session.model.modules())


def test_taken_where_it_changes_none(tiny_settings: Callable[..., dict], text_file: Path, tmp_path: Path) -> None:
    for method, changes in RUNS.items():
        session = opened(tiny_settings(method, **changes), text_file, tmp_path / method)
        tables = [module for module in session.model.modules() if isinstance(module, CompactEmbedding)]
        assert [20 < len(table.weight) < 120 for table in tables] == [True] * (
            2 if method in ("esimcse", "ct", "sgopt") else 1
        )


def opened(settings: dict, text_file: Path, folder: Path) -> Session:
    return Session.open(parse_run(settings), DataPaths(train_file=text_file), folder)


def test_an_id_outside_the_corpus_is_read_in_eval_mode_alone() -> None:
    table = nn.Embedding(10, 4)
    small = CompactEmbedding(table, torch.tensor([2, 5, 9]))
    ids = torch.tensor([5, 2, 9, 5])
    assert torch.equal(small.train()(ids), table(ids))
    assert torch.equal(small.eval()(torch.arange(10)), table(torch.arange(10)))
    with pytest.raises(IndexError):
        small.train()(torch.tensor([2, 3]))


def test_state_dicts_hold_the_whole_table() -> None:
    from transformers import BertConfig

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    encoder, other = (Encoder(BertConfig(vocab_size=12, **sizes)) for _ in range(2))
    whole = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    compact(encoder, torch.tensor([0, 7]).numpy())
    encoder.load_state_dict(whole)
    assert torch.equal(encoder.word.weight, whole["word.weight"][[0, 7]])
    with torch.no_grad():
        encoder.word.weight.add_(1)
    whole["word.weight"][[0, 7]] += 1
    assert all(torch.equal(encoder.state_dict()[name], tensor) for name, tensor in whole.items())
    with pytest.raises(RuntimeError, match=r"word\.weight"):
        encoder.load_state_dict(whole | {"word.weight": whole["word.weight"][:5]})
