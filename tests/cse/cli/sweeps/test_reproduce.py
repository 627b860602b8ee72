"""`cse reproduce` with training stood in for: one sweep for all tables, interim analyses, pages from a bundle."""

import contextlib
import json
import shutil
import time
from pathlib import Path

import pytest

from analysis.answers.study import compare_with_paper, read_sweep
from analysis.ledger import Ledger, LedgerError
from cluster.sweep.events import SweepEvent
from cse.cli.app import main
from cse.experiments.tables import FinishedTables
from tests.commands import printed
from tests.cse.cli.sweeps.pretended import SUITE, Sweeps, given, space, sweeps
from tests.sides import needs

__all__ = ["sweeps"]


def test_two_tables_share_runs_and_each_is_judged(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    out, _ = given(capsys, space("A1", 0.1, 0.2, 0.3, 0.4), space("B1", 0.1, 0.2), "--yes", "--out", "tables")
    (asked,) = sweeps.asked
    assert len(asked) == 8, "four rates with two seeds; B1's are among them"
    assert "12 runs, 8 unique" in out
    assert "8 runs: 0 already in the ledger, 8 to run" in out
    assert "**A1 · A1, made for a test**" in out and "**B1 · B1, made for a test**" in out
    assert "same direction" in out and "one seed could give" not in out
    assert "Scale: not the paper's (other learning_rate, adamw, evaluations, generator), so directions are" in out
    assert "8 runs, 4 of them shared with other tables here; 8 attempts, 1,024 training examples, 16 s" in out
    order = "generated_dev:40: undecided; tau 0.33, interval 0.33 to 0.33 over seeds, 4 rows"
    assert f"{order}; a random order gets as far 75% of the time" in out
    assert "pairs of rows differ on resampled sentence pairs" in out
    assert Path("tables/A1.md").read_text(encoding="utf8") in out
    found = json.loads(Path("tables/A1.json").read_text(encoding="utf8"))
    assert [one["word"] for one in found["verdicts"]] == [
        "reference",
        "same direction",
        "same direction",
        "undecided",
    ], "two seeds that are known to a tenth tell a difference of a point from none no more"
    assert found["cost"] == {"runs": 8, "attempts": 8, "examples": 1024, "seconds": 16.0, "shared": 4}
    assert {"what": "commit", "value": "c0ffee", "runs": "8"} in found["environment"]
    assert found["ordering"][0]["rows"] == 4 and len(found["ordering"][0]["pairs"]) == 6
    assert found["command"] == f"cse reproduce {Path('A1.yaml').absolute()}" and not found["same_scale"]


def test_a_table_is_there_while_others_still_train(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.awaits = {0.3: Path("tables/B1.json")}
    out, _ = given(capsys, space("A1", 0.1, 0.2, 0.3, 0.4), space("B1", 0.1, 0.2), "--yes", "--out", "tables")
    assert out.count("**B1 · ") == 1 and out.index("**B1 · ") < out.index("**A1 · ")
    assert "Missing" not in Path("tables/B1.md").read_text(encoding="utf8")


def test_the_ledger_of_the_working_folder_is_read_while_ray_works_elsewhere(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    sweeps.works_in = elsewhere, tmp_path / "out" / "A.md"
    out, said = given(capsys, space("A", 0.1, 0.2), "--yes", "--out", "out")
    assert said == []
    assert "| 0.1             |   2 |" in out and "not done" not in out
    assert not list(elsewhere.iterdir())


def test_a_crash_leaves_the_whole_tables(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.ends_at = 0.3, LedgerError("ledger: database is away")
    _, said = given(capsys, space("A1", 0.1, 0.2, 0.3), space("B1", 0.1, 0.2), "--yes", "--out", "tables", code=2)
    assert said == ["cse: ledger: database is away"]
    assert sorted(path.name for path in Path("tables").iterdir()) == ["B1.json", "B1.md"]


def test_an_interrupt_leaves_the_whole_tables_and_says_what_others_lack(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    sweeps.ends_at = 0.3, None
    out, said = given(capsys, space("A1", 0.1, 0.2, 0.3), space("B1", 0.1, 0.2), "--yes", "--out", "tables", code=130)
    missing = "Missing: 2 of 6 runs: dup_rate=0.3 seed 0 (unclaimed), dup_rate=0.3 seed 1 (unclaimed)"
    assert said[1:] == [f"cse: A1: {missing}"] and "**B1" in out and "**A1" not in out
    assert missing in Path("tables/A1.md").read_text(encoding="utf8")
    assert "Missing" not in Path("tables/B1.md").read_text(encoding="utf8")


def test_a_score_that_comes_late_gives_the_table_again() -> None:
    made: list[int] = []
    with FinishedTables([{"a", "b"}, {"c"}], made.append) as finished:
        for kind, signature in (("reused", "a"), ("done", "b"), ("reused", "c"), ("scored", "a")):
            finished(SweepEvent(kind=kind, signature=signature))
            while len(made) < 1 and signature == "b":
                time.sleep(0.01)
    assert made == [0, 1] and finished.missed() == [0]


def test_a_second_call_runs_nothing_and_gives_the_same(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    argv = (space("A1", 0.1, 0.2, 0.3), "--yes")
    first, _ = given(capsys, *argv)
    second, _ = given(capsys, *argv)
    assert len(sweeps.asked) == 1
    assert "6/6 already in the ledger, 0 run" in second
    assert second[second.index("**A1") :] == first[first.index("**A1") :]


def test_a_person_who_declines_gets_the_table_as_it_stands(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question: asked.append(question) or False)
    out, _ = given(capsys, space("A1", 0.1, 0.2))
    assert asked == ["Start 4 runs (of a search: its budget)?"]
    assert not sweeps.asked and "not run" in out


def test_a_half_finished_sweep_says_which_cells_are_missing(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    sweeps.fails = {0.2}
    out, said = given(capsys, space("A1", 0.1, 0.2, 0.3), "--yes", code=1)
    assert "Missing: 2 of 6 runs: dup_rate=0.2 seed 0 (failed), dup_rate=0.2 seed 1 (failed)" in out
    assert "| · not run " in out and said[0] == "cse: failed: NaN loss"


def test_cells_that_lack_an_input_do_not_stop_a_table(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    text = Path(space("A1", 0.1, 0.2)).read_text(encoding="utf8")
    both = "  train.encoder: {grid: [words-l1-h64, bert-none-such]}\npaper:"
    keyed = text.replace("train.encoder: words-l1-h64, ", "").replace("paper:", both)
    Path("A1.yaml").write_text(
        keyed.replace("{key: {", "{key: {train.encoder: words-l1-h64, "),
        encoding="utf8",
    )
    out, _ = given(capsys, "A1.yaml", "--yes")
    assert len(sweeps.asked[0]) == 4
    assert "Missing input: " in out and "bert-none-such" in out


def test_a_table_of_which_every_cell_lacks_an_input_is_left_out(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    text = Path(space("B1", 0.1, 0.2)).read_text(encoding="utf8")
    Path("B1.yaml").write_text(text.replace("words-l1-h64", "bert-none-such"), encoding="utf8")
    out, _ = given(capsys, space("A1", 0.1, 0.2), "B1.yaml", "--yes")
    assert "B1: left out, every cell lacks an input" in out and "**A1" in out and "**B1" not in out
    _, said = given(capsys, "B1.yaml", "--yes", code=2)
    assert "bert-none-such" in said[0] and len(said) == 1


def test_unknown_tables_are_all_named(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    _, said = given(capsys, "E7", "D77", "S33", "--yes", code=2)
    assert said == [
        "cse: unknown space: space=D77; did you mean D7?",
        "cse: unknown space: space=S33; did you mean S3?",
    ]
    assert not sweeps.asked


def test_no_seeds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    _, said = given(capsys, "E7", "--seeds", "0", code=2)
    assert "--seeds" in said[-1]


def test_out_must_be_a_folder(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    Path("tables").write_text("mine", encoding="utf8")
    _, said = given(capsys, space("A1", 0.1, 0.2), "--out", "tables", "--yes", code=2)
    assert said == ["cse: not a folder: --out=tables; name a folder, new or not"]
    assert not sweeps.asked and Path("tables").read_text(encoding="utf8") == "mine"


def test_scores_of_another_protocol_are_told_and_other_tables_stand(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    given(capsys, space("A1", 0.1), "--yes")
    sweeps.protocol = {"aggregation": "mean"}
    out, said = given(capsys, space("B1", 0.1, 0.2), "A1.yaml", "--yes", code=2)
    assert said == [
        'cse: B1: one protocol: aggregation="all" and "mean" in generated_dev:40 of B1; '
        "score the runs again under one protocol, or make it an axis"
    ]
    assert "**A1" in out


def test_models_that_nobody_trains_are_scored_before_the_runs(
    capsys: pytest.CaptureFixture[str], sweeps: Sweeps
) -> None:
    """The table that is given while others train has them; a second call computes nothing."""
    rows = """  references:
    - {label: Mean, evaluated: {encoder: words-l1-h64, pooler: mean}, cells: {"generated_dev:40": 50.25}}
    - {label: GloVe, evaluated: {vectors: glove.840B.300d}, cells: {"generated_dev:40": 51.0}}
"""
    path = Path(space("A1", 0.1, 0.2))
    path.write_text(path.read_text(encoding="utf8") + rows, encoding="utf8")
    sweeps.protocol = {"aggregation": "all", "pooler": "cls", "code_version": "1"}
    out, said = given(capsys, "A1.yaml", "--yes", "--out", "tables")
    assert said == ["cse: scoring without training: words-l1-h64, mean, on generated_dev:40"]
    assert "missing input: GloVe: missing data: word vectors glove.840B.300d; put vectors/glove.840B.300d.txt" in out
    assert "- Not scored: GloVe: missing data: word vectors glove.840B.300d" in out
    mean, glove = json.loads(Path("tables/A1.json").read_text(encoding="utf8"))["references"]
    (ours,) = mean["ours"].values()
    assert mean["delta"] == {SUITE: ours - 50.25} and "ours" not in glove
    assert f"| without training: Mean | - | {ours:.2f} | 50.25 |" in " ".join(out.split())
    again, silent = given(capsys, "A1.yaml", "--yes")
    assert silent == [] and again[again.index("**A1") :] in out


def test_changed_cosines_are_told(capsys: pytest.CaptureFixture[str], sweeps: Sweeps, tmp_path: Path) -> None:
    argv = (space("A1", 0.1, 0.2, 0.3), "--yes")
    given(capsys, *argv)
    changed, gone = sorted(tmp_path.glob("*.npz"))[:2]
    changed.write_bytes(changed.read_bytes() + b"x")
    gone.unlink()
    out, _ = given(capsys, *argv)
    assert f"cosines changed since they were scored: file={changed}; score the run again" in out
    assert f"cosines not readable: file={gone} (No such file or directory)" in out


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
    assert "1 tie" in out and "same direction" not in out, "surely within the margin is a tie, sure direction or not"


def pages(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@needs("bundles", "importers")
def test_pages_from_a_bundle_are_those_of_the_ledger(capsys: pytest.CaptureFixture[str], sweeps: Sweeps) -> None:
    tables = (space("A1", 0.1, 0.2, 0.3, 0.4), space("B1", 0.1, 0.2))
    given(capsys, *tables, "--yes", "--out", "before")
    before = pages("before")
    assert b"pairs of rows differ on resampled sentence pairs" in before["A1.md"]
    assert main(["bundle", *tables, "--to", "both.jsonl.gz"]) == 0
    shutil.rmtree("results")
    for npz in Path().glob("*.npz"):
        npz.unlink()
    capsys.readouterr()
    for count in ("8 runs imported, 0 already there", "0 runs imported, 8 already there"):
        assert printed(capsys, "import", "both.jsonl.gz").startswith(count)
        out, said = given(capsys, *tables, "--yes", "--out", "after")
        assert "8/8 already in the ledger, 0 run" in out and said == []
        assert pages("after") == before
    assert len(sweeps.asked) == 1, "nothing was trained again"
