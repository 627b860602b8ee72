"""`cse import wandb`: exported tables without the package, and offline runs that W&B itself wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from cse.cli.app import main
from cse.importers.sources.wandb import records

CONFIG = {"method": "simcse", "train": {"learning_rate": 3e-5, "seed": 3}, "layers": [1, 2], "_wandb": {"x": 1}}


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def imported(source: object, ledger: str, *words: str, score: str = "eval/sts") -> int:
    return main(["import", "wandb", str(source), "--as", "w", "--score", score, "--ledger", ledger, *words])


def test_an_exported_list_of_runs(tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        {"id": "a", "state": "finished", "config": CONFIG, "summary": {"eval/sts": 70.5, "_step": 4, "note": "x"}},
        {"id": "b", "state": "crashed", "config": CONFIG, "summary": {"eval/sts": 1.0}},
        {"id": "c", "state": "finished", "config": CONFIG, "summary": {"loss": 0.1}},
        {"id": "d", "state": "finished", "config": CONFIG, "summary": {"eval/sts": "NaN"}},
    ]
    file = tmp_path / "runs.json"
    file.write_text(json.dumps(runs), encoding="utf8")
    assert imported(file, ledger) == 0
    said = capsys.readouterr()
    assert "1 run imported" in said.out and said.err.splitlines() == [
        "cse: left out: runs: 1 not finished (1 crashed), 2 without eval/sts; import again when they have ended",
        "cse: left out: texts: note; --rename NAME=KEY takes one as a setting",
    ]
    (run,) = Ledger.open(ledger).runs()
    assert (run.method, run.seed, run.best, run.state) == ("simcse", 3, 70.5, "done")
    settings = {"method": "simcse", "train.learning_rate": 3e-5, "train.seed": 3, "layers": "[1, 2]"}
    assert run.config == {"train.dev": "eval/sts", **settings} and run.identity == {"imported": "wandb"}
    assert imported(file, ledger) == 0
    assert "0 runs imported, 1 already there" in capsys.readouterr().out


def test_the_tables_that_the_web_page_and_pandas_write(tmp_path: Path, ledger: str) -> None:
    flat = tmp_path / "page.csv"
    flat.write_text(
        "Name,State,ID,train.learning_rate,method,eval/sts\nn,finished,a,1e-05,simcse,70.5\nm,running,b,1e-05,simcse,9\n",
        encoding="utf8",
    )
    frame = tmp_path / "project.csv"
    frame.write_text(f',summary,config,name\n0,"{{\'eval/sts\': 71.5}}","{CONFIG}",n\n', encoding="utf8")
    assert imported(flat, ledger) == 0 and imported(frame, ledger) == 0
    rows = sorted(Ledger.open(ledger).runs(), key=lambda run: run.best or 0.0)
    assert [(run.best, run.config["train.learning_rate"]) for run in rows] == [(70.5, 1e-5), (71.5, 3e-5)]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("runs.json", "{", "unreadable table: source=PATH ("),
        ("runs.json", '{"a": 1}', "unreadable table: source=PATH (it is no list of runs); export it again"),
        ("runs.csv", "a,eval/sts\n1,x\n", "score is no number: score=eval/sts has 'x'; "),
        ("runs.csv", "a,eval/st\n1,2\n", "no such score: score=eval/sts; "),
        ("runs.json", "[]", "no finished runs: source=PATH; name another source or --study"),
        ("folder/x.txt", "", "no runs: source=PATH has no file *.wandb"),
        ("folder/x.wandb", "text", "unreadable run: file=PATH/x.wandb (it does not begin as W&B's files do)"),
    ],
)
def test_each_mistake_is_one_line(
    name: str, text: str, line: str, tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.endswith(".wandb"):
        pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf8")
    place = file.parent if "/" in name else file
    assert imported(place, ledger) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cse: {line.replace('PATH', str(place))}") and said.count("\n") == 1


def test_a_loss_without_a_direction_is_refused_and_with_one_the_lower_wins(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.60 against 0.63 of a loss with a range of 1: better, by the values as W&B has them."""
    seeds = (0, 1, 2)
    arms = [(arm, seed, base + seed / 1000) for arm, base in (("a", 0.60), ("b", 0.63)) for seed in seeds]
    table = tmp_path / "runs.csv"
    table.write_text(
        "id,method.arm,train.seed,eval/loss\n"
        + "".join(f"{arm}{seed},{arm},{seed},{loss + seed * seed * 1e-4}\n" for arm, seed, loss in arms)
    )
    assert imported(table, ledger, score="eval/loss") == 2
    said = capsys.readouterr().err
    assert said == "cse: no direction: score=eval/loss; give --better lower, or --better higher\n"
    assert imported(table, ledger, "--better", "lower", "--scale", "1", score="eval/loss") == 0
    assert "the lower value is the better one; its range is 1 wide, and a tie within ±0.005" in capsys.readouterr().out
    assert main(["trials", "w", "--ledger", ledger, "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["rows"]
    a, b = (",".join(run["signature"] for run in runs if run["config"]["method.arm"] == arm) for arm in "ab")
    assert main(["gate", a, "--against", b, "--ledger", ledger]) == 0
    assert capsys.readouterr().out.startswith("better: eval/loss -0.0300 (")
    assert main(["gate", b, "--against", a, "--ledger", ledger]) == 3
    assert main(["best", "w", "--ledger", ledger]) == 0
    said = capsys.readouterr().out.partition("the lower eval/loss is the better one\n")[2]
    assert said and "-0." not in said


def test_a_file_that_is_absent_is_one_line(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert imported("absent.csv", ledger) == 2
    assert capsys.readouterr().err.startswith("cse: no such file: source=absent.csv; name a folder of offline runs")


def test_without_the_package_a_folder_says_what_to_install(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.wandb").write_bytes(b":W&B\xe1\xbe\x00")
    monkeypatch.setitem(__import__("sys").modules, "wandb.proto.wandb_internal_pb2", None)
    assert imported(tmp_path, ledger) == 2
    assert capsys.readouterr().err.endswith("; pip install 'cse-search[wandb]'\n")


def test_records_over_several_blocks_are_joined_and_a_cut_end_is_left_out(tmp_path: Path) -> None:
    header, long = b":W&B\xe1\xbe\x00", bytes(range(256)) * 300

    def piece(kind: int, data: bytes) -> bytes:
        return b"\0\0\0\0" + len(data).to_bytes(2, "little") + bytes([kind]) + data

    first = 32 * 1024 - 7 - 7
    middle = 32 * 1024 - 7
    pieces = piece(2, long[:first]) + piece(3, long[first : first + middle]) + piece(4, long[first + middle :])
    file = tmp_path / "x.wandb"
    file.write_bytes(header + pieces + piece(1, b"next") + piece(1, b"cut")[:-1])
    assert list(records(file)) == [long, b"next"]


def test_runs_that_wandb_wrote_offline(
    tmp_path: Path, ledger: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb: Any = pytest.importorskip("wandb", reason="pip install 'cse-search[wandb]'")
    settings = wandb.Settings(silent=True, console="off", mode="offline", x_disable_stats=True)
    for number, code in enumerate((0, 0, 1)):
        about = {"config": CONFIG | {"number": number}, "id": f"id{number}", "project": "p"}
        run = wandb.init(dir=str(tmp_path), reinit="create_new", settings=settings, **about)
        for step in range(3):
            run.log({"eval/sts": 60.0 + number + step, "loss": 1.0})
        run.finish(exit_code=code)
    assert imported(tmp_path / "wandb", ledger) == 0
    assert "2 runs imported" in capsys.readouterr().out
    runs = Ledger.open(ledger).runs()
    assert {run.config["number"]: run.best for run in runs} == {0: 62.0, 1: 63.0}
    assert {(run.method, run.seed, run.config["train.learning_rate"]) for run in runs} == {("simcse", 3, 3e-5)}
