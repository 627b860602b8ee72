"""A person's mistakes on the command line: one line that says what to do, exit code 2, no traceback."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse_train.encoder.folders import find_weights

pytestmark = pytest.mark.usefixtures("somewhere")

SPACE = """version: 1
id: mine
title: mine
method: esimcse
seeds: 2
space:
  method.dup_rate: {grid: [0.1, 0.2]}
"""


def refused(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> list[str]:
    """Run a command line that must fail, and give its lines on stderr."""
    assert main(argv) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out
    return said.err.strip().splitlines()


def space(text: str) -> str:
    Path("mine.yaml").write_text(text, encoding="utf8")
    return "mine.yaml"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("dup_rate", "dup_rat"), "unknown key: method.dup_rat"),
        (("[0.1, 0.2]", "[much]"), "wrong type: method.dup_rate='much'"),
        (("[0.1, 0.2]", "[0.1, 7.0]"), "out of range: method.dup_rate=7.0"),
        (("[0.1, 0.2]", "[]"), "empty grid: method.dup_rate.grid=[]"),
        (("seeds: 2", "seeds: 2\nseeds: 3"), "duplicate key: seeds on line 6"),
        (("method: esimcse", "method: simcse"), "key of another method: method.dup_rate"),
        (("version: 1", "version: 2"), "wrong version: version=2"),
        (("method: esimcse", "method: esimsce"), "did you mean esimcse?"),
    ],
)
def test_a_wrong_space_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], change: tuple[str, str], told: str
) -> None:
    for command in ("plan", "run", "table"):
        lines = refused(capsys, command, space(SPACE.replace(*change)))
        assert any(told in line for line in lines), lines
        assert all(line.startswith("cse: mine.yaml: ") for line in lines)


def test_all_problems_come_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        SPACE.replace("[0.1, 0.2]", "[]").replace("version: 1", "version: 9") + "  train.lerning_rate: {grid: [1e-4]}\n"
    )
    lines = refused(capsys, "plan", space(text))
    assert len(lines) == 3
    assert any("did you mean train.learning_rate?" in line for line in lines)


@pytest.mark.parametrize("pair", ["train.examples", "train.examples=[1, 2]", "train.exampels=3", "train.examples=few"])
def test_a_wrong_setting_is_refused(capsys: pytest.CaptureFixture[str], pair: str) -> None:
    (line,) = refused(capsys, "run", space(SPACE), "--set", pair)
    assert pair.partition("=")[0] in line


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("run", "E77"), "cse: unknown space: space=E77; did you mean E7?"),
        *(
            (("run", "mine.yaml", option, "nowhere"), f"cse: no such path: {option}=nowhere; give one that exists")
            for option in ("--data", "--train-file", "--senteval")
        ),
        (("run", "mine.yaml", "--workers", "4000"), "cse: a run does not fit: workers=4000"),
        (
            ("run", "mine.yaml", "--workers", "2", "--gpus-per-worker", "0.5"),
            "cse: two ranks on one GPU: workers=2 gpus_per_worker=0.5",
        ),
        (("run", "mine.yaml", "--sedes", "3"), "--sedes"),
        (("trials", "--ledger", "absent.db"), "absent.db does not exist"),
        (("export", "nothing", "--to", "model"), "cse: no such run: run=nothing; give a folder"),
        (
            ("train", "simcse", "--set", "train.encoder=./absent", "--set", "train.corpus=generated"),
            "missing folder: train.encoder=",
        ),
    ],
)
def test_what_is_not_there_or_does_not_fit_is_told_and_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], told: str
) -> None:
    space(SPACE)
    assert any(told in line for line in refused(capsys, *argv))
    assert list(Path().iterdir()) == [Path("mine.yaml")]


def test_missing_data_is_named_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    lines = refused(capsys, "run", space(SPACE))
    assert any("missing data: train.corpus=wiki" in line and "--data DIR" in line for line in lines)


def test_a_truncated_sts_file_is_told_with_both_counts(
    capsys: pytest.CaptureFixture[str], data_dir: Path, somewhere: Path
) -> None:
    tree = somewhere / "downstream" / "STS" / "STSBenchmark"
    tree.mkdir(parents=True)
    whole = (data_dir / "senteval/downstream/STS/STSBenchmark/sts-dev.csv").read_text(encoding="utf8")
    (tree / "sts-dev.csv").write_text("".join(whole.splitlines(keepends=True)[:700]), encoding="utf8")
    options = ("--set", "train.corpus=generated", "--senteval", "downstream")
    (line,) = refused(capsys, "run", space(SPACE), *options)
    assert "1500 pairs expected, 700 found" in line


def test_an_unreachable_ledger_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psycopg")
    for command in (("trials",), ("ls",), ("table", "E7")):
        (line,) = refused(capsys, *command, "--ledger", "postgresql://nobody@127.0.0.1:1/none")
        assert "ledger unreachable" in line


def test_a_ledger_of_another_schema_version_is_refused(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    Ledger.open(somewhere / "old.db").close()
    with sqlite3.connect("old.db") as database:
        database.execute("UPDATE cse_meta SET value = '0' WHERE key = 'schema_version'")
    (line,) = refused(capsys, "trials", "--ledger", "old.db")
    assert "ledger schema: version=0" in line


def test_a_corrupt_checkpoint_is_one_line(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    best = somewhere / "run" / "best"
    best.mkdir(parents=True)
    (best / "model.safetensors").write_bytes(b"not a checkpoint")
    (line,) = refused(capsys, "eval", "run", "--suite", "generated_dev")
    assert "corrupt checkpoint" in line
    assert line.endswith("train the run again, one that a ledger has as done after cse doctor --repair")


def test_export_does_not_write_over_files(capsys: pytest.CaptureFixture[str], somewhere: Path) -> None:
    (somewhere / "run").mkdir()
    (somewhere / "model").mkdir()
    (somewhere / "model" / "mine.txt").write_text("keep", encoding="utf8")
    (line,) = refused(capsys, "export", "run", "--to", "model")
    assert line == "cse: folder not empty: to=model; give a new one"


@pytest.mark.parametrize(
    ("method", "settings", "told"),
    [
        ("simcse", {"method.mlm_weight": 0.1, "method.mlm_probability": 1.0}, "method.mlm_probability=1.0"),
        ("diffcse", {"method.masking_ratio": 0}, "method.masking_ratio=0"),
        ("diffcse", {"method.generator": "other"}, "different vocabularies: encoder=words-l2-h128 (26298 pieces), "),
        (
            "dcpcse",
            {"method.prompt_length": 510, "method.position_shift": True},
            "prompts overflow positions: method.prompt_length=510",
        ),
        ("esimcse", {"method.queue_multiple": 0.5}, "method.queue_multiple=0.5"),
        ("declutr", {"method.objective": "contrastive"}, "method.max_length=128 needs 512 tokens"),
    ],
)
def test_options_of_a_method_that_do_not_fit_are_one_line(
    capsys: pytest.CaptureFixture[str], somewhere: Path, method: str, settings: dict[str, object], told: str
) -> None:
    from transformers import AutoTokenizer

    shutil.copytree(find_weights() / "words-l1-h64", "other")
    tokenizer = AutoTokenizer.from_pretrained(find_weights() / "words-l1-h64")
    tokenizer.add_tokens(["newword"])
    tokenizer.save_pretrained("other")
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    own = {"train.encoder": "words-l2-h128", "train.corpus": "file", "train.dev": "generated_dev:16"} | settings
    pairs = [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
    _, line = refused(capsys, "train", method, "--train-file", "text.txt", *pairs)
    assert told in line and ";" in line


def test_a_generator_larger_than_the_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cse_train.encoder.generator.available_memory", lambda: 1000)
    Path("text.txt").write_text("\n".join(f"a line of {i} words" for i in range(80)), encoding="utf8")
    chosen = ("--set", "method.generator=words-l1-h64", "--set", "train.encoder=words-l2-h128")
    data = ("--train-file", "text.txt", "--set", "train.corpus=file", "--set", "train.dev=generated_dev:16")
    _, line = refused(capsys, "train", "diffcse", *data, *chosen)
    assert "generator larger than memory: method.generator=words-l1-h64" in line


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "E77", "--debug"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.strip().endswith("did you mean E7?")
