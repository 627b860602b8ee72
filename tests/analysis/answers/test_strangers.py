"""A bundle is checked as a stranger's: what no run can have done is one line; a poisoned ledger is mended."""

import copy
import gzip
import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import RecordSource, merge
from analysis.ledger.exchange.unsound import find_unsound
from cse.cli.app import main
from tests.sides import needs

pytestmark = needs("importers", "bundles", "doctor")
SHIPPED = Path(__file__).parents[2] / "old_bundle" / "E7.jsonl.gz"
Records = list[dict[str, Any]]
Poison = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def sound() -> Records:
    with gzip.open(SHIPPED) as file:
        return [json.loads(line) for line in file][1:]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(records: Records) -> Path:
    """A bundle of these records with a header that fits them."""
    body = "".join(f"{json.dumps(record)}\n" for record in records).encode()
    counts = Counter(record["kind"] for record in records)
    header = {"format": "cse-search bundle", "version": 1, "counts": counts, "sha256": hashlib.sha256(body).hexdigest()}
    Path("b.jsonl.gz").write_bytes(gzip.compress(json.dumps(header).encode() + b"\n" + body))
    return Path("b.jsonl.gz")


def point(run: dict[str, Any]) -> dict[str, Any]:
    return run["curve"][-1]


RUNS: dict[str, Poison] = {
    "created=1e+300": lambda run: run.update(created=1e300),
    "updated=9e+09": lambda run: run.update(updated=9e9),
    "updated=1.0 is before": lambda run: run.update(updated=1.0),
    "created=-5": lambda run: run.update(created=-5.0),
    "best=1000000000.0": lambda run: run.update(best=1e9),
    "best=99.0 is not the best of its curve": lambda run: run.update(best=99.0),
    "curve: best=1000000000.0": lambda run: point(run).update(best=1e9),
    "curve: best falls": lambda run: run["curve"][0].update(best=99.0),
    "best_examples=7": lambda run: run.update(best_examples=7),
    "examples=64": lambda run: run.update(examples=64),
    "seconds=-5": lambda run: run.update(seconds=-5.0),
    "curve: seconds=-5": lambda run: point(run).update(seconds=-5.0),
    "curve: step=-1": lambda run: point(run).update(step=-1),
    "state='running'": lambda run: run.update(state="running"),
    "state=failed is not how its history ends": lambda run: run.update(state="failed"),
    "signature='../../x'": lambda run: run.update(signature="../../x"),
    "attempt=0": lambda run: run.update(attempt=0),
    "attempts: seconds=-1": lambda run: run["attempts"][0].update(seconds=-1.0),
    "history: at=1e+300": lambda run: run["history"][0].update(at=1e300),
    "seed=-1": lambda run: run.update(seed=-1),
    "config.train.seed=99": lambda run: run["config"].update({"train.seed": 99}),
    "config.method='diffcse'": lambda run: run["config"].update(method="diffcse"),
    "method='../esimcse'": lambda run: run.update(method="../esimcse"),
    "is not that of its config": lambda run: run["config"].update({"train.learning_rate": 0.5}),
    "is not that of its config and identity": lambda run: run["identity"].update(encoder="f" * 64),
    "value=1000000000.0 of sts_dev": lambda run: run["scores"][0].update(value=1e9, suite="sts_dev"),
    "protocol_hash='0000000000000000'": lambda run: run["scores"][0].update(protocol_hash="0" * 16),
    "cosines_hash='../x'": lambda run: run["scores"][0].update(cosines_hash="../x"),
}
SWEEPS: dict[str, Poison] = {
    "created=1e+300": lambda sweep: sweep.update(created=1e300),
    "id='../../x'": lambda sweep: sweep.update(id="../../x"),
    "id='a\\x1b[2J'": lambda sweep: sweep.update(id="a\x1b[2J"),
    "cells: cell_hash=": lambda sweep: sweep["cells"][0].update(cell_hash="0" * 16),
    "cells: signature='../x'": lambda sweep: sweep["cells"].insert(0, {**sweep["cells"][0], "signature": "../x"}),
    "seeds that is no list": lambda sweep: sweep["spec"].update(seeds=3),
}


def refused(records: Records, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(written(records)), "--ledger", "l.db"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cse: wrong record: file=b.jsonl.gz ") and told in line and line.endswith("made again"), line
    assert not list(Path().glob("l.db*")), "no ledger is left behind"


@pytest.mark.parametrize("told", RUNS)
def test_a_run_that_nobody_can_have_trained_is_one_line(
    told: str, sound: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [copy.deepcopy(record) for record in sound if record["kind"] == "run"][:2]
    assert runs[0]["scores"] and runs[0]["curve"]
    RUNS[told](runs[0])
    refused(sorted(runs, key=lambda run: run["signature"]), told, capsys)


@pytest.mark.parametrize("told", SWEEPS)
def test_a_sweep_that_nobody_can_have_started_is_one_line(
    told: str, sound: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = next(copy.deepcopy(record) for record in sound if record["kind"] == "sweep")
    SWEEPS[told](sweep)
    refused([sweep], told, capsys)


def poisoned(sound: Records, poison: Poison, kind: str) -> str:
    """A ledger of the shipped sweep, and a sweep `bad` beside it as the version before took it over."""
    assert main(["import", str(SHIPPED), "--ledger", "l.db"]) == 0
    run = next(copy.deepcopy(record) for record in sound if record["kind"] == "run")
    run["signature"] = "b" * 24
    sweep = next(copy.deepcopy(record) for record in sound if record["kind"] == "sweep")
    sweep |= {"id": "bad", "cells": [{**sweep["cells"][0], "signature": "b" * 24}], "looks": []}
    poison(run if kind == "run" else sweep)
    ledger = Ledger.open("l.db")
    merge(ledger, [run, sweep], RecordSource("b.jsonl.gz", "0" * 64))
    ledger.close()
    return "b" * 24


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        *(("run", told) for told in ("created=1e+300", "best=1000000000.0", "seconds=-5", "history: at=1e+300")),
        *(("run", told) for told in ("state='running'", "best=99.0 is not the best of its curve", "attempt=0")),
        ("sweep", "created=1e+300"),
    ],
)
def test_a_ledger_that_the_version_before_poisoned_shows_other_sweeps_and_is_mended_by_one_command(
    kind: str, told: str, sound: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    signature = poisoned(sound, (RUNS if kind == "run" else SWEEPS)[told], kind)
    capsys.readouterr()
    assert main(["table", "E7@wiki_small", "--ledger", "l.db"]) == 0
    table = capsys.readouterr().out
    assert main(["bundle", "E7@wiki_small", "--to", "e7.jsonl.gz", "--ledger", "l.db"]) == 0
    assert main(["ls", "--ledger", "l.db"]) == 0
    assert main(["doctor", "--repair", "--yes", "--ledger", "l.db"]) == 0
    assert "is taken out" in capsys.readouterr().out
    ledger = Ledger.open("l.db")
    assert find_unsound(ledger) == [] and len(ledger.runs(sweep="E7@wiki_small")) == 24
    assert (kind == "run") == (signature not in {run.signature for run in ledger.runs()})
    assert main(["table", "E7@wiki_small", "--ledger", "l.db"]) == 0
    assert capsys.readouterr().out == table


EDITS = {
    "update cse_runs set created = 1e300 where signature = 'BAD'": "created=1e+300",
    "update cse_runs set config = '{' where signature = 'BAD'": "has broken JSON in config",
    "update cse_runs set state = 'finished' where signature = 'BAD'": "state='finished' is unknown",
    "update cse_sweeps set spec = '[]' where id = 'bad'": "spec=[] is not a JSON object",
    "update cse_sweeps set spec = '{' where id = 'bad'": "has broken JSON in spec",
    "update cse_sweeps set updated = 'soon' where id = 'bad'": "updated='soon' is not a number",
    "update cse_baselines set rows = '7'": "rows is not a list of [name, number]",
    "update cse_curves set metrics = '[1]' where signature = 'BAD'": "metrics=[1] is not a JSON object of numbers",
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_row_that_a_hand_has_spoilt_stops_no_command_about_another_sweep(
    edit: str, sound: Records, capsys: pytest.CaptureFixture[str]
) -> None:
    signature = poisoned(sound, lambda run: None, "run")
    with sqlite3.connect("l.db") as connection:
        assert connection.execute(edit.replace("BAD", signature)).rowcount
    capsys.readouterr()
    for argv in (["ls"], ["table", "E7@wiki_small"], ["bundle", "E7@wiki_small", "--to", "e7.jsonl.gz"], ["clean"]):
        assert main([*argv, "--ledger", "l.db"]) == 0, argv
    assert main(["doctor", "--repair", "--yes", "--ledger", "l.db"]) == 0
    assert EDITS[edit] in capsys.readouterr().out
    assert main(["doctor", "--repair", "--ledger", "l.db"]) == 0
    assert "0 would be put right" in capsys.readouterr().out


@pytest.mark.slow
def test_all_shipped_bundles_are_a_runs_own(capsys: pytest.CaptureFixture[str]) -> None:
    for file in sorted(SHIPPED.parent.glob("*.gz")):
        if file.stat().st_size < 3_000_000:
            assert main(["import", str(file), "--ledger", f"{file.name}.db"]) == 0, capsys.readouterr().err
