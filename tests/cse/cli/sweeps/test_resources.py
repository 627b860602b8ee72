"""Workers and GPUs that cannot be: one line on the command line, exit code 2, before anything starts."""

from pathlib import Path

import pytest

from cluster.runtime import resources
from cluster.runtime.resources import Node
from cse.cli import sweep_options
from cse.cli.app import main
from tests.commands import problems

SPACE = """version: 1
id: mine
title: mine
method: esimcse
seeds: 1
space:
  method.dup_rate: {grid: [0.1]}
"""


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CSE_DATA", raising=False)
    Path("mine.yaml").write_text(SPACE, encoding="utf8")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The last line of a `cse run` that must not start."""
    *_, last = problems(capsys, "run", "mine.yaml", *options)
    assert list(Path().iterdir()) == [Path("mine.yaml")]
    return last


CARD = "0, GPU-aa, NVIDIA A100-SXM4-40GB, 8.0, {}\n"
"""What the driver says of a card; at its end whether MIG has divided it."""


@pytest.mark.parametrize(
    ("options", "driver", "told"),
    [
        *((("--workers", n), None, f"elastic workers: workers={n}; the ranks") for n in ("1-4", "auto", "2:8", "1.5")),
        (("--workers", "two"), None, "wrong type: workers=two; give a whole number"),
        (("--workers", "-1"), None, "out of range: workers=-1; give a number > 0"),
        (
            ("--gpus-per-worker", "0.3"),
            None,
            "part of a GPU is left over: gpus_per_worker=0.3 lets 3 runs fill 0.9 of it; give a fraction that "
            "divides 1: 0.3333 or 0.25",
        ),
        (
            ("--accelerator-type", "A100"),
            None,
            "a kind of GPU for runs without one: accelerator_type=A100 gpus_per_worker=0; give ",
        ),
        (
            ("--gpus-per-worker", "0.5"),
            CARD.format("Enabled"),
            "part of a MIG instance: gpus_per_worker=0.5 on NVIDIA-A100-SXM4-40GB, which MIG has ",
        ),
        (
            ("--gpus-per-worker", "1", "--accelerator-type", "H100"),
            CARD.format("[N/A]"),
            "no such GPU: accelerator_type=H100; there: NVIDIA-A100-SXM4-40GB; give one of these, ",
        ),
    ],
)
def test_workers_and_cards_that_cannot_be_are_refused(
    options: tuple[str, ...],
    driver: str | None,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if driver:
        monkeypatch.setattr(resources, "ask_driver", lambda: driver)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert told in refused(capsys, *options)


def test_a_card_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_options, "this_machine", lambda: Node(cpus=8, gpus=0, memory_gb=64))
    line = refused(capsys, "--gpus-per-worker", "0.5")
    assert line.startswith("cse: no GPU: gpus_per_worker=0.5; there: this machine 8 CPUs, 0 GPUs, ")


def planned_to_train(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The last line of a `cse run` that is refused when it has been planned, before Ray starts."""
    generated = [f"--set=train.{name}" for name in ("corpus=generated", "dev=generated_dev:20", "examples=64")]
    assert main(["run", "mine.yaml", "--set=train.encoder=words-l1-h64", *generated, *options]) == 2
    assert not Path("results", "runs").exists(), "no run has been begun"
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_fp16_without_gpus_is_refused_by_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    line = planned_to_train(capsys, "--set=train.precision=fp16")
    assert line == "cse: no fp16: train.precision=fp16 without GPUs; give --gpus-per-worker 1, or set it to fp32"


def test_bf16_on_a_card_without_it_is_refused_by_the_plan(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "ask_driver", lambda: "0, GPU-aa, Tesla T4, 7.5, [N/A]\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    line = planned_to_train(capsys, "--set=train.precision=bf16", "--gpus-per-worker=1")
    assert line == "cse: no bf16: train.precision=bf16 on Tesla-T4, before Ampere; set it to fp16"
