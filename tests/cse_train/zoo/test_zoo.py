"""Every architecture of the zoo does what an encoder does, or says in one line why not; transformers is the oracle."""

import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel, T5EncoderModel

from cse_train.checkpoint import save_best
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import PACKED_KINDS
from cse_train.encoder.identity import backbone_identity
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.pooling import POOLERS, has_projector, needs_tokens, pool
from cse_train.evaluate.models import open_model
from cse_train.export.agreement import ExportChanged
from cse_train.export.export import export
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.results import Outcome
from cse_train.training.loop import train
from tests.cse_train.zoo.kinds import KINDS, PADDED, Kind, write_kind
from tests.cse_train.zoo.pieces import LINES

FAST = ("bert half", "deberta-v3", "xlm-roberta", "modernbert", "convbert", "t5", "gpt2", "gemma3 both ways")
"""In the default round; the slow one has all."""
PLAIN = tuple(pooler for pooler in POOLERS if not has_projector(pooler, training=True))
TEXTS = ("the old bridge", "winter music in the garden near the river 5", "glass", " ".join(LINES[:12]))
ROOM = 60


@pytest.fixture
def paths(tmp_path: Path) -> DataPaths:
    """Texts; `pairs.csv` beside them has pairs."""
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf8")
    rows = (f"{a},{b}" for a, b in itertools.pairwise(LINES))
    (tmp_path / "pairs.csv").write_text("\n".join(["sent0,sent1", *rows]), encoding="utf8")
    return DataPaths(train_file=tmp_path / "text.txt", cache=tmp_path / "cache")


def load_peer(folder: Path) -> PreTrainedModel:
    """transformers' model; of an encoder-decoder its encoder."""
    model = AutoModel.from_pretrained(folder) if "T5EncoderModel" not in (folder / "config.json").read_text() else None
    model = (model or T5EncoderModel.from_pretrained(folder)).float().eval()
    return model.get_encoder() if model.config.is_encoder_decoder and hasattr(model, "decoder") else model


def expected(folder: Path) -> dict[str, torch.Tensor]:
    """Pooler -> a vector for each text, by plain code on the states of one text at a time."""
    peer, tokenizer = load_peer(folder), AutoTokenizer.from_pretrained(folder)
    rows: dict[str, list[torch.Tensor]] = {pooler: [] for pooler in PLAIN}
    for text in TEXTS:
        ids = torch.tensor([tokenizer(text, truncation=True, max_length=ROOM)["input_ids"]])
        with torch.no_grad():
            out = peer(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
        last_LH, states = out.last_hidden_state[0], out.hidden_states
        rows["cls_no_mlp"].append(last_LH[0])
        rows["last"].append(last_LH[-1])
        rows["mean"].append(last_LH.mean(0))
        rows["first_last"].append((states[0][0] + last_LH).mean(0) / 2)
        rows["first_last_layer1"].append((states[1][0] + last_LH).mean(0) / 2)
    return {pooler: torch.stack(vectors) for pooler, vectors in rows.items()}


def check_poolers(folder: Path) -> None:
    """Each vector within 1e-6 of its length."""
    backbone, theirs = load_backbone(str(folder)), expected(folder)
    ids = [backbone.tokenizer(text, truncation=True, max_length=ROOM)["input_ids"] for text in TEXTS]
    encoder = backbone.encoder.eval()
    for pooler, wanted in theirs.items():
        with torch.no_grad():
            ours = pool(encoder(pack_lists(ids, groups=2), tokens=needs_tokens(pooler)), pooler)[0]
        apart = (ours - wanted).norm(dim=1) / wanted.norm(dim=1)
        assert apart.max() < 1e-6, (pooler, apart)


def run_of(folder: Path, kind: Kind, **changed: object) -> RunConfig:
    """Four steps of SimCSE, in a way that fits the kind."""
    settings: dict[str, object] = {
        "method": "simcse",
        "method.pooler": "cls" if kind.first else "mean",
        "train.dropout": 0.1 if kind.dropout and not kind.noise else None,
        "train.encoder": str(folder),
        "train.corpus": "file",
        "train.dev": "generated_dev:10",
        "train.batch_size": 4,
        "train.examples": 16,
        "train.evaluations": 2,
        "train.max_seq_length": 16,
        "train.learning_rate": 1e-3,
    }
    return parse_run(settings | {key.replace("_", ".", 1): value for key, value in changed.items()})


def train_all(run: RunConfig, paths: DataPaths, folder: Path) -> Outcome:
    """Stopped at the first of two evaluations, and taken up again."""
    stopped = train(run, paths, folder, lambda point: True)
    resumed = train(run, paths, folder, lambda point: False)
    assert stopped.stopped and not resumed.stopped and [point.step for point in resumed.points] == [2, 4]
    return resumed


def check_training(folder: Path, kind: Kind, paths: DataPaths, to: Path) -> None:
    if kind.dropout:
        whole = train(run_of(folder, kind), paths, to / "texts", lambda point: False)
        resumed = train_all(run_of(folder, kind), paths, to / "resumed")
        assert [p.metrics for p in whole.points] == [p.metrics for p in resumed.points]
    pairs = DataPaths(train_file=paths.train_file.with_name("pairs.csv"), cache=paths.cache)  # type: ignore[union-attr]
    trained = train(run_of(folder, kind, method_objective="pairs"), pairs, to / "pairs", lambda point: False)
    assert np.isfinite(trained.points[-1].metrics["loss"])


def check_refusals(folder: Path, kind: Kind, paths: DataPaths, to: Path) -> None:
    """A pooler of position 0 where that is no text's, and views without noise, before a step."""
    if not kind.first:
        with pytest.raises(ConfigError, match=r"^no first token: method\.pooler=cls, .* set method\.pooler to mean, "):
            train(run_of(folder, kind, method_pooler="cls", train_dropout=0), paths, to, lambda point: False)
    if not kind.noise:
        with pytest.raises(ConfigError, match=r"^no noise between the views: train\.dropout=null"):
            train(run_of(folder, kind, train_dropout=None), paths, to, lambda point: False)
    assert not (to / "last").exists()


def check_scoring(best: Path) -> None:
    """A text alone, in a batch, and one that is longer than the positions."""
    model = open_model(best)
    together = model.embed(TEXTS)
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=2e-6 * np.abs(together).max())
    assert np.isfinite(model.embed([" ".join(LINES)])).all()


def check_export(best: Path, form: str, line: str, to: Path) -> None:
    """The export reads the folder back and compares scores itself; here the vectors count."""
    if line:
        with pytest.raises(ConfigError, match=line):
            export(best, to, form)
        return
    agreement = export(best, to, form)
    agreement.require()


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in KINDS])
def test_an_architecture_does_all_that_an_encoder_does(name: str, tmp_path: Path, paths: DataPaths) -> None:
    kind, folder, run = KINDS[name], write_kind(tmp_path / name.replace(" ", "-"), name), tmp_path / "run"
    if kind.refused:
        with pytest.raises(ConfigError, match=kind.refused):
            load_backbone(str(folder))
        return
    assert backbone_identity(str(folder))[0] == load_backbone(str(folder)).content_hash
    check_poolers(folder)
    check_training(folder, kind, paths, run)
    check_refusals(folder, kind, paths, tmp_path / "refused")
    best = run / ("texts" if kind.dropout else "pairs") / "best"
    check_scoring(best)
    has_projection = "has no layer above" if kind.first and kind.model_type not in PACKED_KINDS else ""
    check_export(best, "hf", kind.hf or has_projection, tmp_path / "hf")
    check_export(best, "sentence-transformers", kind.modules, tmp_path / "modules")
    shutil.rmtree(run)


LEAKING = [name for name, kind in KINDS.items() if kind.modules == PADDED]


def untrained(folder: Path, to: Path) -> Path:
    """The best/ of a run that has the folder's own weights."""
    run = run_of(folder, KINDS["bert"], method_pooler="mean")
    method = load_method("simcse").build(run.options, load_backbone(str(folder)), training=False)
    save_best(to, run, method, {"best": 1.0, "best_examples": 4})
    return to / "best"


@pytest.mark.parametrize("form", ["hf", "sentence-transformers"])
@pytest.mark.parametrize("name", LEAKING)
def test_an_export_to_whose_texts_padding_reaches_is_refused(
    name: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a batch of unlike lengths shows it where nobody knows the architecture: one length showed 0."""
    best = untrained(write_kind(tmp_path / "folder", name), tmp_path / "run")
    with pytest.raises(ConfigError, match=PADDED):
        export(best, tmp_path / "to", form)
    monkeypatch.setattr("cse_train.export.export.require_saved", lambda parts: None)
    with pytest.raises(ExportChanged, match=r"\(embeddings of \d+ texts differ by [\d.]+e[+-]\d+ at most\)"):
        export(best, tmp_path / "to", form)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("name", LEAKING)
def test_a_library_folder_to_whose_texts_padding_reaches_is_scored_text_by_text(name: str, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    modules = library.sentence_transformer.modules
    encoder = modules.Transformer(str(write_kind(tmp_path / "folder", name)))
    library.SentenceTransformer(modules=[encoder, modules.Pooling(32, "mean")]).save(str(tmp_path / "st"))
    check_scoring(tmp_path / "st")


def test_the_zoo_has_forty_architectures_and_eight_of_them_in_the_default_round() -> None:
    assert len({kind.model_type for kind in KINDS.values()}) >= 40
    assert len(FAST) == 8 and set(FAST) <= set(KINDS)
