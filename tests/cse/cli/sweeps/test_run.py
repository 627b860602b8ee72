"""How a sweep ends for a person: the line, the reasons, the exit code; and what is recorded before it starts."""

import dataclasses
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cluster.sweep.events import EventKind, Failure, SweepEvent, SweepOutcome
from cse.cli.app import main
from cse.cli.options import data_paths
from cse.cli.sweep_options import print_outcome
from cse.cli.sweeps import run as run_command
from cse.experiments import request as sweeping
from cse.experiments import run as experiments_run
from search_spaces import cell_names, cells
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.run_values import book_run, score_of

SETTINGS = {"train.corpus": "generated", "train.dev": "generated_dev:20"}


def request_for(folder: Path, name: str = "E7", **settings: object) -> sweeping.Request:
    resolved = resolve(load_space(name), None, {**SETTINGS, **settings})  # type: ignore[dict-item]
    return sweeping.Request(
        resolved=resolved,
        seeds=(0, 1),
        paths=data_paths(None, None, None),
        ledger=str(folder / "ledger.db"),
        options=SweepOptions(storage=folder),
    )


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (SweepOutcome(done=3, reused=1), 0),
        (SweepOutcome(done=2, failures=(Failure(signature="s", reason="NaN loss", log="runs/s/logs"),)), 1),
        (SweepOutcome(done=1, interrupted=True), 130),
    ],
)
def test_the_exit_code_says_how_it_ended(outcome: SweepOutcome, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_outcome(outcome, "results/ledger.db") == code
    said = capsys.readouterr()
    assert f"{outcome.done} done, {outcome.failed} failed" in said.out
    assert "results/ledger.db" in said.out
    assert (said.err == "cse: failed: NaN loss; log runs/s/logs\n") == (code == 1)
    assert ("the same command continues" in said.err) == (code == 130)


def test_a_sweep_is_recorded_with_all_its_runs_before_it_starts(tmp_path: Path) -> None:
    request = request_for(tmp_path)
    with_ledger = Ledger.open(request.ledger)
    work = sweeping.work_of([request], with_ledger)
    assert (work.total, work.done, work.nothing_left) == (16, 0, False)
    (row,) = with_ledger.sweeps()
    assert (row.id, row.runs, row.states) == (cells.sweep_name(request.resolved), 16, {"unclaimed": 16})
    assert row.spec.space == "E7"


def test_other_settings_are_another_sweep(tmp_path: Path) -> None:
    plain = resolve(
        load_space("E7"),
    )
    assert cells.sweep_name(plain) == "E7"
    assert cells.sweep_name(resolve(load_space("E7"), "paper")) == "E7@paper"
    assert cells.sweep_name(resolve(load_space("E7"), None, {"train.examples": 640})) == "E7 train.examples=640"


def test_a_finished_grid_still_wants_a_suite_that_was_added(tmp_path: Path) -> None:
    request = request_for(tmp_path, **{"method.dup_rate": 0.32})
    space = dataclasses.replace(request.resolved.space, evaluate=("generated_dev:30",))
    request = dataclasses.replace(request, resolved=dataclasses.replace(request.resolved, space=space))
    ledger = Ledger.open(request.ledger)
    for planned in sweeping.work_of([request], ledger).runs:
        about = {"seed": planned.seed, "identity": planned.identity, "examples": 1}
        book_run(ledger, planned.signature, planned.run.flat(), **about)
    unscored = sweeping.work_of([request], ledger)
    assert unscored.done == unscored.total == 2
    assert not unscored.nothing_left
    for planned in unscored.runs:
        ledger.add_score(planned.signature, score_of("generated_dev:30", 50.0, {}, None, None))
    assert sweeping.work_of([request], ledger).line() == "2/2 already in the ledger, 0 run"


def test_asha_counts_examples(tmp_path: Path) -> None:
    options = experiments_run._asha(resolve(load_space("simcse")), lambda run: {})
    assert options is not None
    assert (options.max_examples, options.grace_examples) == (25600, 5120)
    assert experiments_run._asha(resolve(load_space("E7")), lambda run: {}) is None


def test_a_search_is_handed_over_with_its_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def stub(source, ledger, paths, options, on_event, suites, over):  # type: ignore[no-untyped-def]
        first = source.ask()
        seen.update(first=first, options=options, suites=suites)
        return SweepOutcome(done=1)

    monkeypatch.setattr("cse.experiments.run.run_sweep", stub)
    request = request_for(tmp_path, "simcse")
    ledger = Ledger.open(request.ledger)
    assert experiments_run.run_search(request, ledger).done == 1
    assert seen["options"].asha is not None  # type: ignore[attr-defined]
    (row,) = ledger.sweeps()
    assert row.spec.asked == 60
    assert row.runs == 2
    assert seen["first"].sweep == row.id  # type: ignore[attr-defined]


def test_only_a_great_many_runs_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question: False)
    assert run_command.ask(100)
    assert not run_command.ask(101)


def test_labels_are_short() -> None:
    assert cell_names.cell_name({"method.dup_rate": 0.32}, 1) == "dup_rate=0.32 seed 1"


def test_what_was_spent_of_a_budget_is_in_the_ledger_and_said_by_plan_status_and_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the sweep runs as of its newest run, also in a line of its progress; at the end as it is then."""
    said: list[list[str]] = []

    def stub(source, ledger, paths, options, on_event, suites, over):  # type: ignore[no-untyped-def]
        opened = Ledger.open(ledger)
        for _ in range(3):
            run = source.ask()
            said.append(list(opened.sweeps()[0].spec.spent))
            book_run(opened, run.signature, run.run.flat(), seed=run.seed, identity=run.identity, examples=1)
            on_event(SweepEvent(kind=EventKind.DONE, signature=run.signature, best=1.0))
            source.observe(run, RunState.DONE, 1.0, 1)
        assert source.ask() is None and source.exhausted()
        opened.close()
        return SweepOutcome(done=3)

    monkeypatch.setattr("cse.experiments.run.run_sweep", stub)
    request = sweeping.set_budgets(request_for(tmp_path, "simcse"), "3 runs", None)
    experiments_run.run_search(request, Ledger.open(request.ledger))
    spent = "budget 3 runs: simcse {} of 3 runs spent"
    assert said[0] == [spent.format(0)] and said[2] in ([spent.format(1)], [spent.format(2)])
    told = capsys.readouterr()
    assert told.out == f"{spent.format(3)}\n" and spent.format(1) in told.err.splitlines()[-1].replace("2 of", "1 of")
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    for words in (["status"], ["plan", "simcse", *given], ["table", "simcse", *given]):
        assert main([*words, "--ledger", request.ledger]) == 0
        both = capsys.readouterr()
        assert spent.format(3) in " ".join((both.out + both.err).split()), words
