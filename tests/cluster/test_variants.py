"""Every cell of the papers as a short run: what is planned, what is blocked, and the line that each gets."""

from pathlib import Path

import pytest

from analysis.ledger import Ledger
from cluster import signature as signatures
from cluster.cli import main
from cluster.commands import variants as command
from cluster.options import SweepOutcome
from cluster.space import load_space
from cluster.variants import EVALUATIONS, STEPS, Ended, Short, Variant, loss_parts, paper_spaces, report
from cse_train.config import DataPaths
from cse_train.fields import ConfigError

SPACE = """version: 1
id: T
method: esimcse
space:
  method.dup_rate: {grid: [0.1, 0.2]}
  train.corpus: {grid: [generated, nli]}
  train.encoder: {grid: [wiki-l4-h128, large]}
"""
PROFILE = """version: 1
train: {dev: "generated_dev:20", batch_size: 8, evaluations: 20}
stand_ins:
  train.encoder: {large: null}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A space and a profile; the working folder is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    (tmp_path / "T.yaml").write_text(SPACE)
    (tmp_path / "p.yaml").write_text(PROFILE)
    return str(tmp_path / "T.yaml"), str(tmp_path / "p.yaml")


def test_cells_become_short_runs_and_what_is_absent_is_blocked(files: tuple[str, str]) -> None:
    space, profile = files
    found = Short(paths=DataPaths(), profile=profile).variants([load_space(space)])
    runs = [variant.run.run for variant in found if variant.run]
    assert {(run.train.examples, run.train.evaluations) for run in runs} == {(STEPS * 8, EVALUATIONS)}
    assert [run.options.dup_rate for run in runs] == [0.1, 0.2]
    blocked = {variant.name: variant.blocked for variant in found if not variant.run}
    assert blocked["encoder=large"] == "no counterpart in profile p"
    assert blocked["dup_rate=0.1 corpus=nli encoder=wiki-l4-h128"].startswith("missing data: train.corpus=nli needs")
    assert len(found) == 5


def test_examples_and_seeds_are_as_asked_for(files: tuple[str, str]) -> None:
    space, profile = files
    short = Short(
        paths=DataPaths(), profile=profile, seeds=range(2), examples=16, overrides={"train.corpus": "generated"}
    )
    runs = [variant.run for variant in short.variants([load_space(space)]) if variant.run]
    assert [(run.seed, run.run.train.examples) for run in runs] == [(0, 16), (1, 16)] * 2
    assert {run.sweep for run in runs} == {f"variants@{profile} examples=16 train.corpus=generated"}
    assert len({run.signature for run in runs}) == 4


def test_every_cell_of_every_table_is_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_backbone", "_corpus", "_dev"):
        monkeypatch.setattr(signatures, name, lambda *given: ("h", "h"))
    monkeypatch.setattr(signatures, "_further", lambda *given: {})
    found = Short(paths=DataPaths(), profile="small").variants(paper_spaces())
    assert {variant.space for variant in found} == {space.id for space in paper_spaces()}
    assert {variant.blocked for variant in found if not variant.run} == {"no counterpart in profile small"}
    assert all(
        variant.run.run.train.examples == STEPS * variant.run.run.train.batch_size for variant in found if variant.run
    )


def test_the_report_has_a_line_for_each_and_says_why(files: tuple[str, str]) -> None:
    space, profile = files
    found = Short(paths=DataPaths(), profile=profile).variants([load_space(space)])
    first, second = [variant.run.signature for variant in found if variant.run]
    metrics = {
        "generated_dev:20": 41.5, "loss": 0.351, "loss_contrastive": 0.34, "loss_rtd": 1.21, "alignment": 0.2,
        "uniformity": -1.5, "positive_cosine": 0.9, "negative_cosine": 0.11, "queue_rows": 160.0,
    }  # fmt: skip
    text = report(found, {first: Ended("done", "", metrics), second: Ended("failed", "loss is nan", {})})
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert lines[0][:6] == ["space", "variant", "method", "state", "dev", "loss"]
    line = next(line for line in lines if "41.50" in line)
    assert line[5:] == ["0.351 (contrastive 0.34, rtd 1.21)", "0.2", "-1.50", "0.9", "0.11", "", "160"]
    assert [line[3] for line in lines[2:]].count("blocked") == 3
    assert "- T dup_rate=0.2 corpus=generated encoder=wiki-l4-h128: failed: loss is nan" in text
    assert "- T encoder=large: blocked: no counterpart in profile p" in text


def test_a_variant_that_was_not_reached_is_not_run() -> None:
    text = report([Variant("T", "a|b", "simcse", blocked="why")], {})
    assert r"| T     | a\|b    | simcse | blocked |" in text
    assert loss_parts({"loss": float("nan")}) == "nan"


def test_the_command_trains_through_the_sweep_and_writes_the_table(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space, profile = files
    handed = []

    def stub(runs, finished, url, paths, options, suites=None):  # type: ignore[no-untyped-def]
        handed.append((len(runs), len(finished), options.workers))
        ledger = Ledger.open(url)
        for run in runs:
            about = {"method": "esimcse", "seed": run.seed, "owner": "me", "identity": run.identity, "provenance": {}}
            claim = ledger.claim(run.signature, run.run.flat(), **about)
            assert claim is not None
            point = {
                "examples": 8,
                "step": 1,
                "seconds": 1.0,
                "best": 1.0,
                "best_examples": 8,
                "metrics": {"loss": 0.5},
            }
            ledger.add_points(claim, [point])
            end = {"examples": 8, "best": 1.0, "best_examples": 8, "seconds": 1.0, "folder": None}
            ledger.finish(claim, "done", **end)
        return SweepOutcome(done=len(runs))

    monkeypatch.setattr(command.sweeping, "run_planned", stub)
    argv = ["train", space, "--profile", profile, "--workers", "1", "--ledger", "l.db", "--out", "variants.md"]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert "5 variants: 2 runs, 0 already in the ledger, 2 to run\n3 blocked" in said
    assert Path("variants.md").read_text().startswith("| space |")
    assert said.endswith(Path("variants.md").read_text())
    assert main(argv) == 0
    assert "2 runs, 2 already in the ledger, 0 to run" in capsys.readouterr().out
    assert handed == [(2, 0, 1)]


@pytest.mark.parametrize("argv", [["train"], ["train", "E7", "--all-variants"], ["train", "simcs", "E7"]])
def test_what_to_train_must_be_clear(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith(
        ("cse: nothing to train: ", "cse: unknown space: space=simcs; did you mean")
    )


def test_a_search_without_an_end_is_no_list_of_variants() -> None:
    with pytest.raises(ConfigError, match="no finite list of cells"):
        Short(paths=DataPaths()).variants([load_space("simcse")])
