"""`cse reproduce --until decided` with training stood in for: which rows get seeds, looks, and a person's mistakes."""

import contextlib
import json
from pathlib import Path

import pytest

from analysis.answers.study import compare_with_paper, read_sweep
from analysis.ledger import Ledger
from cse.cli.app import main
from tests.cse.cli.sweeps.pretended import Sweeps, given, space, sweeps

__all__ = ["sweeps"]


def looked_at(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[str, list[str]]:
    return given(capsys, *argv, "--until", "decided", "--yes", "--out", "tables")


def seeds_of(asked: list[tuple[float, int]]) -> dict[float, int]:
    """Rate -> seeds that it got, which are the first ones."""
    seeds = {rate: sorted(seed for other, seed in asked if other == rate) for rate, _ in asked}
    assert all(got == list(range(len(got))) for got in seeds.values())
    return {rate: len(got) for rate, got in seeds.items()}


def test_rows_that_are_decided_get_no_more_seeds(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.noise = 1.0
    out, _ = looked_at(capsys, space("A1", 0.1, 0.2, 0.3, 0.4), "--max-seeds", "8")
    (asked,) = sweeps.asked
    seeds = seeds_of(asked)
    assert seeds[0.1] == 8 and seeds[0.4] == 8, "1 point in noise of 1; and the row that it is compared with"
    assert seeds[0.3] < 8, "6 points are told at once"
    assert "12 runs for the next look: 0 already in the ledger; at most 32 in all" in out
    plain = json.loads(Path("tables/A1.json").read_text(encoding="utf8"))
    assert plain["looks"] == [3, 5, 8] and plain["cost"]["runs"] == len(asked)
    assert "Looks: after 3, 5, 8 seeds of every row that is not decided yet" in out
    assert f"Repeat: `cse reproduce {Path('A1.yaml').resolve()} --until decided --max-seeds 8`" in out
    with contextlib.closing(Ledger.open("sqlite:///results/ledger.db")) as ledger:
        assert ledger.sweep_spec("A1").looks == [3, 5, 8]
        assert len(ledger.cells("A1")) == len(asked), "no run is linked that nobody wants"
        (sweep,) = ledger.sweeps()
        resolved, study, made = read_sweep(sweep, ledger, None)
        verdicts, _ = compare_with_paper(resolved, study, made, ledger)
        reported = [(verdict.word, verdict.interval) for verdict in verdicts.values()]
    printed = [(entry["word"], entry["interval"] and tuple(entry["interval"])) for entry in plain["verdicts"]]
    assert reported == printed, "a report judges by the looks that were declared"


def test_looks_go_on_where_they_stopped_and_a_whole_table_trains_nothing(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    sweeps.noise = 1.0
    table = space("A1", 0.1, 0.2, 0.3, 0.4)
    looked_at(capsys, table, "--max-seeds", "3")
    out, _ = looked_at(capsys, table, "--max-seeds", "8")
    first, then = sweeps.asked
    assert not set(first) & set(then) and seeds_of([*first, *then])[0.4] == 8
    page = Path("tables/A1.md").read_bytes()
    again, _ = looked_at(capsys, table, "--max-seeds", "8")
    assert f"{len(first) + len(then)}/{len(first) + len(then)} already in the ledger, 0 run" in again
    assert len(sweeps.asked) == 2 and Path("tables/A1.md").read_bytes() == page
    assert again[again.index("**A1") :] == out[out.index("**A1") :]


def test_tables_that_share_rows_are_looked_at_each_by_itself(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    sweeps.noise = 1.0
    looked_at(capsys, space("A1", 0.1, 0.2, 0.3, 0.4), space("B1", 0.1, 0.3), "--max-seeds", "8")
    (asked,) = sweeps.asked
    assert len(asked) == len(set(asked)), "a run of both is trained once"
    wide, narrow = (json.loads(Path(f"tables/{id}.json").read_text(encoding="utf8")) for id in ("A1", "B1"))
    assert wide["cost"]["runs"] == len(asked) > narrow["cost"]["runs"]


def test_a_row_whose_runs_fail_holds_up_no_look(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.noise, sweeps.fails = 1.0, {0.2}
    assert main(["reproduce", space("A1", 0.1, 0.2, 0.4), "--until", "decided", "--max-seeds", "5", "--yes"]) == 0
    (asked,) = sweeps.asked
    assert seeds_of(asked) == {0.1: 5, 0.2: 3, 0.4: 5}
    assert "not run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--max-seeds", "8"], "no looks: --max-seeds=8; give --until decided with it, or --seeds instead"),
        (
            ["--until", "decided", "--seeds", "3"],
            "two answers: --until=decided --seeds=3; give --max-seeds in place of",
        ),
        (["--until", "sure"], "unknown until: until=sure"),
        (["--until", "decided", "--max-seeds", "2"], "Input should be greater than or equal to 3"),
        (["--margin", "0"], "a tie needs a width: margin=0; give points above 0, such as 0.5"),
    ],
)
def test_mistakes_in_looks_are_one_line(capsys: pytest.CaptureFixture[str], argv: list[str], line: str) -> None:
    _, said = given(capsys, space("A1", 0.1, 0.2), *argv, code=2)
    assert line in said[-1], said


def test_a_wider_margin_makes_ties(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.noise = 0.05
    out, _ = given(capsys, space("A1", 0.1, 0.4), "--yes", "--seeds", "8", "--margin", "3")
    assert f"Repeat: `cse reproduce {Path('A1.yaml').resolve()} --margin 3 --seeds 8`" in out
    assert "same direction" in out, "a direction that is sure is said before a tie"
