"""What people hand to `cse eval`, `cse embed` and `cse export` by mistake: one line, exit code 2."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel
from transformers.utils import logging

from cse_train import checkpoint
from cse_train.checkpoint import sum_of
from cse_train.config import parse_run
from cse_train.encoder import prompted_transformer
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.evaluate.models import PROMPT_MODULES, holds_our_module
from cse_train.methods.base import load_method
from tests.commands import printed, refused

SETS = "downstream"
GENERATED = ("--suite", "generated_dev:20")


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # as `cse` itself has both: transformers is imported here before `main` can say so
    logging.disable_progress_bar()
    yield tmp_path
    logging.set_verbosity(before)
    logging.enable_progress_bar()


def a_run(method: str = "simcse", **settings: object) -> Path:
    """The folder of a run whose best checkpoint is its start."""
    own = {"train.encoder": "words-l1-h64", "train.dev": "generated_dev:20", "method.pooler": "mean", **settings}
    run = parse_run({"method": method, **own})
    model = load_method(method).build(run.options, load_backbone("words-l1-h64"))
    checkpoint.save_best(Path("run"), run, model, {"best": 1.0, "best_examples": 1})
    return Path("run")


def copied(source: Path, file: str, lines: int) -> Path:
    """The beginning of a real file in a tree of its own."""
    to = Path(SETS, file)
    to.parent.mkdir(parents=True, exist_ok=True)
    text = (source / "senteval/downstream" / file).read_text(encoding="latin-1")
    to.write_text("".join(text.splitlines(keepends=True)[:lines]), encoding="latin-1")
    return to.resolve()


def test_a_short_set_is_told_with_file_and_both_counts(capsys: pytest.CaptureFixture[str], data_dir: Path) -> None:
    argv = ("eval", str(a_run()), "--senteval", SETS, "--suite")
    dev = copied(data_dir, "STS/STSBenchmark/sts-dev.csv", 700)
    assert f"sts_dev: 1500 pairs expected, 700 found in {dev}" in refused(capsys, *argv, "sts_dev")
    positive = copied(data_dir, "MR/rt-polarity.pos", 90)
    line = refused(capsys, *argv, "mr")
    assert "expected, 90 found" in line and str(positive) in line and "5331" in line
    assert "missing data: sts_test needs " in (line := refused(capsys, *argv, "sts_test")) and "sts-test.csv" in line
    assert "missing data: " in (line := refused(capsys, *argv, "trec")) and "TREC" in line


def test_weights_that_are_not_finite(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    file = a_run() / "best" / "model.safetensors"
    tensors = load_file(file)
    name = next(name for name in tensors if name.endswith("norm.bias") or name.endswith("LayerNorm.bias"))
    tensors[name][0] = float("nan")
    header = checkpoint.read_best(Path("run"))
    texts = {"run": json.dumps(header[0].flat()), "facts": json.dumps(header[1])}
    save_file(tensors, file, texts | {"crc32": sum_of(texts.values(), tensors)})
    (somewhere / "in.txt").write_text("a cat\na dog\n", encoding="utf8")
    assert "not finite: " in refused(capsys, "eval", "run", *GENERATED)
    assert "not finite: 2 of 2 embeddings of " in refused(capsys, "embed", "run", "in.txt", "--to", "out.npy")
    assert not Path("out.npy").exists()
    assert "not finite: " in refused(capsys, "export", "run", "--to", "model", "--format", "hf")
    assert not Path("model").exists()


def test_a_pooler_of_random_numbers_is_refused(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    """transformers fills an absent pooler with random numbers, and saves them as if they had been trained."""
    shutil.copytree(find_weights() / "tokenizer", "plain")
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=8192, **size)).save_pretrained("plain")
    (somewhere / "in.txt").write_text("a cat\n", encoding="utf8")
    for argv in (("eval", "plain", *GENERATED), ("embed", "plain", "in.txt", "--to", "out.npy")):
        line = refused(capsys, *argv, "--pooler", "cls")
        assert line.startswith("cse: untrained pooler: pooler=cls of ")
        assert "randomly initialised" in line and "choose one of" in line
    assert refused(capsys, "eval", "plain", *GENERATED, "--pooler", "clss").startswith(
        "cse: unknown pooler: pooler=clss"
    )


def test_a_folder_that_is_no_model(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    (somewhere / "notes").mkdir()
    (somewhere / "in.txt").write_text("a cat\n", encoding="utf8")
    assert refused(capsys, "eval", "notes", *GENERATED).startswith("cse: not a model: ")
    assert refused(capsys, "embed", "notes", "in.txt", "--to", "out.npy").startswith("cse: not a model: ")
    assert refused(capsys, "export", "notes", "--to", "model").startswith("cse: no checkpoint: ")


def test_files_without_sentences_and_folders_as_files(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    (somewhere / "empty.txt").write_text("", encoding="utf8")
    (somewhere / "folder.txt").mkdir()
    run = str(a_run())
    assert "empty data: file=empty.txt has no sentence" in refused(capsys, "embed", run, "empty.txt", "--to", "o.npy")
    assert "folder.txt" in refused(capsys, "embed", run, "folder.txt", "--to", "o.npy")
    assert not Path("o.npy").exists()


def test_a_folder_with_code_of_others_is_never_trusted(somewhere: Path) -> None:
    ours = Path(prompted_transformer.__file__)
    (somewhere / "model").mkdir()
    assert not holds_our_module(somewhere / "model"), "no code, nothing to trust"
    shutil.copy(ours, somewhere / "model" / "prompted_transformer.py")
    assert holds_our_module(somewhere / "model")
    (somewhere / "model" / "1_Pooling").mkdir()
    (somewhere / "model" / "1_Pooling" / "more.py").write_text("", encoding="utf8")
    assert not holds_our_module(somewhere / "model"), "another file beside it"
    shutil.rmtree(somewhere / "model" / "1_Pooling")
    (somewhere / "model" / "prompted_transformer.py").write_bytes(ours.read_bytes() + b"\nopen('ran', 'w')\n")
    assert not holds_our_module(somewhere / "model"), "another byte in it"


def test_folders_that_were_exported_with_another_prompt_module_are_still_read(somewhere: Path) -> None:
    today = Path(prompted_transformer.__file__).read_bytes()
    assert hashlib.sha256(today).hexdigest() == PROMPT_MODULES[0], "put the new hash first, and keep the others"
    (somewhere / "model").mkdir()
    now, then = (
        b"padding = auto_model.embeddings.position_embeddings.padding_idx  # RoBERTa's positions count from behind it\n"
        b"        offset = 0 if padding is None else padding + 1\n",
        b'offset = config.pad_token_id + 1 if config.model_type == "roberta" else 0\n',
    )
    first = today.replace(now, then)  # until XLM-RoBERTa and others ran in our encoder
    for before in (first, first.replace(b"PROMPTS_SETTINGS", b"SETTINGS")):  # 0.1.0: constants of one name
        (somewhere / "model" / "prompted_transformer.py").write_bytes(before)
        assert before != today and holds_our_module(somewhere / "model")


@pytest.mark.slow
def test_an_exported_prompt_method_is_read_back_and_a_changed_one_is_not_run(
    capsys: pytest.CaptureFixture[str], somewhere: Path
) -> None:
    pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    run = str(a_run("dcpcse", **{"method.prompt_length": 4}))
    printed(capsys, "export", run, "--to", "model", "--format", "sentence-transformers")
    values = []
    for model in (run, "model"):
        values.append(json.loads(printed(capsys, "eval", model, *GENERATED, "--format", "json"))["rows"][0]["value"])
    assert values[1] == pytest.approx(values[0], abs=0.01)
    (module,) = Path("model").rglob("*.py")
    module.write_text(f"open({str(somewhere / 'ran')!r}, 'w').close()\n" + module.read_text(encoding="utf8"))
    assert refused(capsys, "eval", "model", *GENERATED).startswith("cse: not a model: ")
    assert not Path("ran").exists()


@pytest.mark.parametrize("suite", ["senteval", "senteval_dev"])
def test_a_mean_over_tasks_is_not_taken_over_those_at_hand(
    suite: str, capsys: pytest.CaptureFixture[str], data_dir: Path, somewhere: Path
) -> None:
    for folder in ("MR", "CR", "SUBJ", "MPQA", "SST/binary"):
        shutil.copytree(data_dir / "senteval/downstream" / folder, Path(SETS, folder))
    line = refused(capsys, "eval", str(a_run()), "--suite", suite, "--senteval", SETS)
    assert line.startswith("cse: missing data: trec needs ")
