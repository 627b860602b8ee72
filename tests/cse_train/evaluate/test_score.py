import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cse_train import checkpoint, methods
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.evaluate.embedding import StsEvaluator
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.score import save_cosines, score_checkpoint
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.training.loop import train


@pytest.fixture
def run(tiny_encoder: Path) -> RunConfig:
    flat = {"method": "simcse", "method.pooler": "cls_no_mlp", "train.encoder": str(tiny_encoder)}
    return parse_run(flat | {"train.dev_max_length": 48})


@pytest.fixture
def folder(run: RunConfig, tmp_path: Path) -> Path:
    """A finished run: its best checkpoint."""
    model = load_method(run.method).build(run.options, load_backbone(run.train.encoder))
    checkpoint.save_best(tmp_path / "run", run, model, {})
    return tmp_path / "run"


def test_scores_files_and_protocols(run: RunConfig, folder: Path, tmp_path: Path) -> None:
    suites = ["generated_dev:18", "generated_dev:30"]
    scores = score_checkpoint(folder, suites, DataPaths(), tmp_path / "out")
    assert [score.column for score in scores] == suites
    backbone = load_backbone(run.train.encoder)
    backbone.encoder.eval()
    for score in scores:
        pairs = load_pairs(score.suite, DataPaths())
        expected = StsEvaluator(pairs, backbone.tokenizer, 48)(lambda packed: backbone.encoder(packed).cls_VNH[0])
        kept = score.file
        assert kept is not None and score.cosines is None
        stored = np.load(kept.path)
        assert score.value == pytest.approx(expected.spearman, abs=1e-6)
        np.testing.assert_allclose(stored["cosines"], expected.cosines, atol=1e-6)
        np.testing.assert_array_equal(stored["gold"], pairs.gold)
        assert hashlib.sha256(kept.path.read_bytes()).hexdigest() == kept.sha256
        protocol = score.protocol
        assert (protocol.pooler, protocol.max_length, protocol.split) == ("cls_no_mlp", 48, "dev")
        assert protocol.data_hash == pairs.content_hash
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(s.file.path.name for s in scores if s.file)


def test_equal_cosines_have_equal_hashes(tmp_path: Path) -> None:
    gold = np.arange(4.0)
    first = save_cosines(tmp_path / "a.npz", gold / 7, gold)
    assert save_cosines(tmp_path / "b.npz", gold / 7, gold) == first
    assert save_cosines(tmp_path / "a.npz", gold / 8, gold) != first


def test_a_bad_suite_is_found_before_anything_is_scored(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^missing data: sts_dev"):
        score_checkpoint(folder, ["generated_dev:18", "sts_dev"], DataPaths(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_full_disk_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold = np.arange(4.0)
    digest = save_cosines(tmp_path / "a.npz", gold, gold)

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        save_cosines(tmp_path / "a.npz", gold / 2, gold)
    assert hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest() == digest
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


AS_AT_TEST = {"consert": {"method.train_layers": None}, "promptbert": {"method.dev_denoising": False}}
"""Settings under which methods that pick by other vectors than those of the test pick by these."""


@pytest.mark.parametrize("method", methods.names())
def test_the_score_of_the_dev_set_is_the_best_dev_score_bit_for_bit(
    method: str, tiny_settings: Callable[..., dict], tiny_paths: Callable[[str], DataPaths], tmp_path: Path
) -> None:
    run, paths = parse_run(tiny_settings(method) | AS_AT_TEST.get(method, {})), tiny_paths(method)
    best = train(run, paths, tmp_path, lambda point: False).best
    (score,) = score_checkpoint(tmp_path / "best", [run.train.dev], paths, tmp_path / "scores")
    assert score.value == best
