"""`cse ablate`: the plan from a sweep or a run, shared runs, the losses, and a sweep that every command reopens."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import cse
from analysis.ledger import Ledger
from analysis.sweep_spec import SweepSpec
from cluster.runtime.options import SweepOptions
from cse.cli.app import main
from cse.cli.options import data_paths
from cse.experiments import request as sweeping
from cse.experiments.ablation import Origin, ablation, origin_of
from cse_train.config import parse_run
from cse_train.fields import ConfigError
from cse_train.plugins import registry as plugins
from search_spaces.catalog import load_space
from search_spaces.cells import Cell, resolve
from search_spaces.identity.signature import identity, signature
from tests.commands import printed, refused
from tests.cse_train.plugins.conftest import METHOD
from tests.documents import validated
from tests.site_ledger import train

SETTINGS = {
    "train.corpus": "generated",
    "train.dev": "generated_dev:20",
    "train.encoder": "words-l1-h64",
    "method.dup_rate": 0.32,
}
SWEEP = "E7 " + " ".join(f"{key}={SETTINGS[key]}" for key in sorted(SETTINGS))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A sweep of one cell of E7 with seeds 0 and 1 done, on the corpus that the project makes itself."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    resolved = resolve(load_space("E7"), None, SETTINGS)
    request = sweeping.Request(
        resolved=resolved,
        seeds=(0, 1),
        paths=data_paths(None, None, None),
        ledger=str(tmp_path / "results" / "ledger.db"),
        options=SweepOptions(storage=tmp_path),
    )
    sweeping.work_of([request], opened)
    (cell,) = resolved.cells()
    finish(opened, cell, {0: 60.0, 1: 62.0})
    return opened


def finish(ledger: Ledger, cell: Cell, values: Mapping[int, float]) -> list[str]:
    """Finished runs of a cell; those that the ledger has stay as they are."""
    names = []
    for seed, value in values.items():
        run = cell.run(seed)
        inputs = identity(run, data_paths(None, None, None))
        names.append(signature(run, inputs))
        about = {"method": run.method, "seed": seed, "owner": "me", "identity": inputs, "provenance": {}}
        claim = ledger.claim(names[-1], run.flat(), **about)
        if claim is not None:
            end = {"examples": 10, "best": value, "best_examples": 10, "seconds": 1.0, "folder": None}
            ledger.finish(claim, "done", **end)
    return names


def test_the_plan_shares_the_full_configuration_and_leaves_no_trace(
    capsys: pytest.CaptureFixture[str], ledger: Ledger, tmp_path: Path
) -> None:
    text = printed(capsys, "ablate", SWEEP, "--seeds", "2", "--plan-only")
    assert "5 cells x 2 seeds = 10 runs: 2 done, 8 to run" in text
    assert "w/o repetition: method.dup_rate 0.32 -> 0.0" in text and "\n  full\n" in text
    assert [row.id for row in ledger.sweeps()] == [SWEEP] and not (tmp_path / "results" / "ablations").exists()


def test_what_was_tried_is_named_by_the_plan(capsys: pytest.CaptureFixture[str], ledger: Ledger) -> None:
    given = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    names = sorted(run.signature for run in ledger.runs())
    (seen,) = json.loads(printed(capsys, "plan", "E7", "--seeds", "2", *given, "--format", "json"))["seen"]
    assert (seen["cell"], sorted(seen["signatures"])) == ({"method.dup_rate": 0.32}, names)
    text = printed(capsys, "plan", "E7", "--seeds", "2", *given)
    assert f"seen: nothing is new, the ledger has run {names[0][:12]}, {names[1][:12]}" in text


def test_a_finished_ablation_is_printed_and_reopened(
    capsys: pytest.CaptureFixture[str], ledger: Ledger, tmp_path: Path
) -> None:
    printed(capsys, "ablate", SWEEP, "--seeds", "2", "--plan-only")
    best = ledger.runs(states=["done"])[0]
    made = ablation(Origin(name=SWEEP, flat=best.config, profile="small", seeds=[0, 1]), tmp_path)
    scores = iter([(60.0, 62.0), (58.0, 60.5), (50.0, 51.0), (60.5, 62.5), (59.0, 62.0)])
    for cell, (first, second) in zip(resolve(made.space).cells(), scores, strict=True):
        finish(ledger, cell, {0: first, 1: second})
    text = printed(capsys, "ablate", best.signature[:8], "--seeds", "2")
    assert "10/10 already in the ledger, 0 run" in text
    rows = [line.split("  ")[0] for line in text.splitlines() if line.startswith(("full", "w/o"))]
    assert rows == ["full", "w/o momentum queue", "w/o repetition", "w/o MLP on [CLS]", "w/o dropout noise"]
    assert "-10.50" in text and "paired, 2 seeds" in text
    file = text.strip().rpartition("cse table ")[2]
    table = json.loads(printed(capsys, "table", file, "--format", "json"))
    cells = [row["cells"]["generated_dev:20"] for row in table["rows"]]
    assert (cells[0]["n"], cells[0]["mean"], len(cells)) == (2, 61.0, 5)
    assert Path(file).stem in [row.id for row in ledger.sweeps()]
    found = json.loads(printed(capsys, "explain", Path(file).stem, "--cell", "w/o repetition", "--format", "json"))
    assert [run["values"]["generated_dev:20"] for run in found["runs"]] == [58.0, 60.5]
    _check_formats(capsys, file)


def _check_formats(capsys: pytest.CaptureFixture[str], file: str) -> None:
    """Labels, differences and intervals stand in every format, by the ablation's name and by its file.

    Without the queue 50 and 51 in place of 60 and 62: -10.5, half interval 12.7062 x 0.5.
    """
    for form in ("md", "tex", "csv", "html"):
        text = printed(capsys, "ablate", Path(file).stem, "--format", form)
        assert "w/o momentum queue" in text and "full" in text, form
        assert all(number in text for number in ("-10.50", "-16.85", "-4.15")), (form, text)
    made = validated("ablate", printed(capsys, "ablate", file, "--format", "json"))
    worst = made["rows"][0]
    assert (made["version"], made["column"], made["full"]["mean"]) == (1, "generated_dev:20", 61.0)
    assert (worst["label"], worst["difference"]) == ("w/o momentum queue", -10.5)
    assert worst["interval"] == pytest.approx([-16.853, -4.147], abs=1e-3)
    answer = cse.ablate(Path(file).stem)
    assert answer.data == made and answer.to_frame()["difference"][0] == -10.5
    assert "w/o repetition" in answer._repr_html_() and "paired, 2 seeds" in str(answer)


def origin(method: str, **changed: Any) -> Origin:
    flat = parse_run({"method": method, **{key.replace("__", "."): value for key, value in changed.items()}}).flat()
    return Origin(name="a run", flat=flat, profile="small", seeds=[0, 1, 2], evaluate=["sts_dev"])


def test_components_that_are_off_are_told_and_not_run(tmp_path: Path) -> None:
    made = ablation(origin("esimcse", method__queue_multiple=0.0, train__learning_rate=1e-5), tmp_path)
    assert made.absent == ("momentum queue",)
    labels = [cell.label for cell in made.space.cells]
    assert labels == ["full", "w/o repetition", "w/o dropout noise", "w/o MLP on [CLS]"]
    assert load_space(made.write()) == made.space, "rates such as 1e-5 survive the file"
    assert all(cell.run(0).train.learning_rate == 1e-5 for cell in resolve(made.space).cells())
    assert made.space.evaluate == ("sts_dev",)


@pytest.mark.parametrize(("text", "told"), [("components: {}", "its space declares none"), ("", "declares none")])
def test_a_method_without_components(text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simcse.yaml").write_text(
        f"version: 1\nid: simcse\nmethod: simcse\nspace: {{train.dropout: {{grid: [0.1]}}}}\n{text}\n", encoding="utf8"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cse.experiments.ablation.load_space", lambda name: load_space(tmp_path / "simcse.yaml"))
    with pytest.raises(ConfigError, match=f"nothing to leave out: method=simcse, .*{told}"):
        ablation(origin("simcse"), tmp_path)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("nothing",), "no such run: run=nothing; give a folder, a signature (cse trials) or a sweep (cse ls)"),
        (("empty",), "nothing finished: sweep=empty has no done run; let cse run go on"),
        ((SWEEP, "--set", "method.dup_rat=1"), "unknown key: method.dup_rat=1; did you mean method.dup_rate?"),
        ((SWEEP, "--set", "method.dup_rate=7"), "out of range: method.dup_rate=7"),
        ((SWEEP, "--profile", "paper"), "no profile: profile=paper; the settings are those of E7"),
        ((SWEEP, "--workers", "4000"), "a run does not fit: workers=4000"),
    ],
)
def test_mistakes_are_one_line(
    argv: tuple[str, ...], told: str, ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger.record_sweep("empty", SweepSpec({"title": "t"}))
    line = refused(capsys, "ablate", *argv)
    assert line.startswith(f"cse: {told}")


TENSION_SPACE = """version: 1
id: mine
plugins: [tension.py]
method: tension
seeds: 2
set: {train.corpus: generated, train.dev: "generated_dev:20", train.encoder: words-l1-h64}
space: {method.scale: {grid: [2.0, 3.0]}}
COMPONENTS"""


@pytest.fixture
def tension(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a method of somebody's and its space."""
    monkeypatch.chdir(tmp_path)
    Path("tension.py").write_text(METHOD, encoding="utf8")
    yield tmp_path
    plugins.forget()


@pytest.mark.parametrize(
    ("components", "line"),
    [
        ("components: {scale: {method.scale: 1.0}, dropout noise: {train.dropout: 0.0}}", ""),
        ("", "cse: nothing to leave out: method=tension, its space declares none; add to `components:` of its space"),
    ],
)
def test_a_method_of_a_user_s_own_is_taken_apart_by_its_space(
    tension: Path, capsys: pytest.CaptureFixture[str], components: str, line: str
) -> None:
    Path("mine.yaml").write_text(TENSION_SPACE.replace("COMPONENTS", components), encoding="utf8")
    opened = Ledger.open(tension / "results" / "ledger.db")
    resolved = resolve(load_space(Path("mine.yaml").absolute()))
    place = {"ledger": str(tension / "results" / "ledger.db"), "options": SweepOptions(storage=tension)}
    request = sweeping.Request(resolved=resolved, seeds=(0, 1), paths=data_paths(None, None, None), **place)
    sweeping.work_of([request], opened)
    finish(opened, resolved.cells()[1], {0: 60.0, 1: 62.0})
    code = main(["ablate", "mine", "--plan-only"])
    said = capsys.readouterr()
    if line:
        assert code == 2 and said.err.strip() == line
        return
    assert code == 0, said.err
    assert "w/o scale: method.scale 3.0 -> 1.0" in said.out and "3 cells x 2 seeds = 6 runs: 2 done" in said.out
    made = ablation(origin_of("mine", opened, None, {}), tension / "elsewhere")
    assert load_space(made.write()).plugins == (str(tension / "tension.py"),)


def test_a_run_of_a_program_has_no_components(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("", encoding="utf8")
    text = "version: 1\nid: mine\ntrainer: {script: train.py, score: {name: loss, direction: min}}\n"
    Path("mine.yaml").write_text(f"{text}space: {{lr: {{grid: [1]}}}}\n", encoding="utf8")
    opened = Ledger.open(tmp_path / "results" / "ledger.db")
    train(opened, resolve(load_space("mine.yaml")), 1, lambda run: 0.5)
    plugins.forget()
    (run,) = opened.runs()
    for name in ("mine", run.signature):
        assert main(["ablate", name]) == 2
        told = capsys.readouterr().err
        assert told.startswith("cse: nothing to leave out: ") and len(told.splitlines()) == 1, told
    plugins.forget()
