"""The command that runs everything on a card: parts that end, fail and take too long, and all of it at tiny sizes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from benchmarks import made_text
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import cells, tables
from benchmarks.gpu.parts import REPO, Part
from benchmarks.gpu.record import Record
from benchmarks.step.gpu import lacking

COUNTING = """
import sys, time
from benchmarks.gpu.results import called
call = called("")
print("begun with", len(call.results.items))
for number in range(4):
    call.results.do(f"item {number}", lambda: ([f"| {number} |"], {}))
    time.sleep(PAUSE)
"""
FAILING = 'import sys; sys.exit("no | such card")'
ERRING = """
from benchmarks.gpu.results import called
call = called("")
call.results.do("first", lambda: 1 / 0)
call.results.do("second", lambda: (["a line"], {}))
"""


def counting(pause: float) -> str:
    return COUNTING.replace("PAUSE", str(pause))


Run = Callable[..., Record]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs scripts as parts in one call and gives what the folder has then; a script's limit is so many seconds."""

    def ran(*scripts: str, seconds: float = 60, needs: tuple[str, ...] = ()) -> Record:
        listed = [Part(f"part{n}", f"Part {n}", seconds / 60, ("-c", text), needs) for n, text in enumerate(scripts)]
        monkeypatch.setattr(command, "PARTS", tuple(listed))
        monkeypatch.setattr(command, "TITLES", {part.name: part.title for part in listed})
        tmp_path.joinpath("out").mkdir(exist_ok=True)
        command.go(Record.open(tmp_path / "out", quick=True), [], time.perf_counter() + 300)
        return Record.open(tmp_path / "out", quick=True)

    return ran


def page(tmp_path: Path) -> str:
    return (tmp_path / "out" / "gpu.md").read_text()


def test_a_part_that_fails_says_why_and_the_next_one_runs(run: Run, tmp_path: Path) -> None:
    record = run(FAILING, counting(0))
    failed, done = record.parts["part0"], record.parts["part1"]
    assert (failed.state, failed.why) == ("failed", "exit code 1: no / such card (part0.log)")
    assert (done.state, list(done.items)) == ("done", [f"item {n}" for n in range(4)])
    assert "\n| Part 0 | failed | 0.0 | 0 | exit code 1: no / such card (part0.log) |\n" in page(tmp_path)
    assert "\n| 2 |\n| 3 |\n" in page(tmp_path)


@pytest.mark.slow
def test_an_item_that_fails_is_named_and_the_next_one_is_done(run: Run, tmp_path: Path) -> None:
    record = run(ERRING)
    assert record.parts["part0"].state == "failed"
    assert record.parts["part0"].why == "first: ZeroDivisionError: division by zero (part0.log)"
    assert "\nfirst failed: ZeroDivisionError: division by zero\n\na line\n" in page(tmp_path)
    again = record.parts["part0"].without_errors()
    assert (again.state, list(again.items)) == ("cut", ["second"])


@pytest.mark.slow
def test_a_part_that_is_cut_goes_on_and_one_that_is_done_is_not_run_again(run: Run, tmp_path: Path) -> None:
    record = run(counting(0), counting(2.0), seconds=5)
    assert [part.state for part in record.parts.values()] == ["done", "cut"]
    before = list(record.parts["part1"].items)
    assert 0 < len(before) < 4 and "stopped after 0.1 min" in record.parts["part1"].why
    assert "begun with 0" in (tmp_path / "out" / "part1.log").read_text()
    for other in (tmp_path / "out").iterdir():  # gpu.json alone is carried to another machine
        if other.name != "gpu.json":
            other.unlink()
    record = run(FAILING, counting(0.0))
    assert [part.state for part in record.parts.values()] == ["done", "done"]
    assert list(record.parts["part1"].items) == [f"item {n}" for n in range(4)]
    assert f"begun with {len(before)}" in (tmp_path / "out" / "part1.log").read_text()


def test_what_a_part_started_is_ended_with_it(run: Run, tmp_path: Path) -> None:
    note = tmp_path / "child"
    child = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    run(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])", seconds=3)
    stat = Path(f"/proc/{note.read_text()}/stat")
    until = time.monotonic() + 5
    while stat.exists() and ") Z " not in stat.read_text() and time.monotonic() < until:
        time.sleep(0.1)
    assert not stat.exists() or ") Z " in stat.read_text()


def test_a_part_without_its_package_is_skipped_by_name(run: Run) -> None:
    (part,) = run(FAILING, needs=("no_such_package",)).parts.values()
    assert (part.state, part.why.partition(" by ")[0]) == ("skipped", "no_such_package cannot be imported")


def test_quick_figures_and_others_do_not_mix(run: Run, tmp_path: Path) -> None:
    run(counting(0))
    with pytest.raises(SystemExit, match="were made with --quick; for figures without it give another --to"):
        Record.open(tmp_path / "out", quick=False)


def test_the_noted_cells_are_those_of_the_tables() -> None:
    assert json.loads(cells.FILE.read_text(encoding="utf8")) == cells.cells()


def test_twelve_seeds_of_the_three_tables() -> None:
    """60 unique runs with three seeds, as `cse plan E7 E8 S3 --profile small` says."""
    runs = tables.runs(quick=False)
    assert len(runs) == 12 * 60 / 3
    assert {run["train.corpus"] for run in runs.values()} == {"file"}
    assert len({json.dumps(run, sort_keys=True) for run in runs.values()}) == 240


def test_an_estimate_is_called_one() -> None:
    assert tables.summary(60, 240, 90.0, 4) == [
        "60 of 240 runs took 1.5 min in 4 processes on one card. An estimate, seconds a run times runs: "
        "all 240 would take 6.0 min."
    ]
    assert "measured in full" in tables.summary(240, 240, 360.0, 4)[0]


def test_as_many_processes_as_were_fastest() -> None:
    figures = [(1, 0.5), (2, 0.9), (4, 0.7)]
    items = {str(n): {"error": None, "figures": {"processes": n, "runs_a_second": rate}} for n, rate in figures}
    assert tables.fastest(items) == 2
    assert tables.fastest({}) == 4


def test_made_up_lines_are_as_long_as_wikipedias_sentences() -> None:
    tokenizer = AutoTokenizer.from_pretrained(made_text.VOCABULARY.parent)
    lines = made_text.lines(2000)
    counts = sorted(len(ids) for ids in tokenizer(lines)["input_ids"])
    assert counts == sorted(len(line.split()) + 2 for line in lines), "a word is one token"
    wanted = [15, 23, 32, 44, 70]
    assert [counts[int(q * 2000)] for q in (0.05, 0.25, 0.5, 0.75, 0.95)] == pytest.approx(wanted, rel=0.08)
    assert lines == made_text.lines(2000) != made_text.lines(2000, seed=1)


def test_a_peer_is_named_with_the_packages_that_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert lacking("SimCSE in the HF Trainer") == ["accelerate"]
    assert lacking("sentence-transformers' trainer")[-2:] == ["accelerate", "datasets"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a card")
def test_without_a_card_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu", "--to", str(tmp_path)], capture_output=True, text=True
    )
    line = "no card: torch sees no CUDA device; nothing was run; --quick runs all of it on a CPU\n"
    assert (done.returncode, done.stdout) == (1, line)


ABSENT = ("ray", "optuna", "pydantic", "sqlalchemy", "datasets", "accelerate")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_of_it_runs_where_ray_optuna_pydantic_and_sqlalchemy_are_absent(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({ABSENT}))\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, "-m", "benchmarks.gpu", "--quick", "--to", str(tmp_path / "out")]
    done = subprocess.run(words, cwd=REPO, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    record = Record.open(tmp_path / "out", quick=True)
    states = {name: part.state for name, part in record.parts.items()}
    assert states == dict.fromkeys(command.TITLES, "done") | {"tests_cluster": "skipped"}
    outcomes = [item["figures"]["outcome"] for item in record.parts["tests"].items.values()]
    assert outcomes.count("passed") == len(outcomes) > 4
    assert "HF Trainer was not run: accelerate cannot be imported" in (tmp_path / "out" / "gpu.md").read_text()
    begun = time.monotonic()
    again = subprocess.run(words, cwd=REPO, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    assert again.returncode == 0 and " ..." not in again.stdout and time.monotonic() - begun < 60
    assert Record.open(tmp_path / "out", quick=True).parts == record.parts
