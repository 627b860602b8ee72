"""`cse doctor --probe`: what a group takes is measured, and a packing keeps to cores, memory and GPUs."""

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.runtime.options import SweepOptions
from cluster.runtime.resources import Node
from cse.cli.app import main
from cse.doctor import card_peak, probe
from cse.doctor.probe import Measurement, MemoryWatch, Packing, packing
from cse_train.config import RunConfig, parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.folders import find_weights
from cse_train.fields import ConfigError
from cse_train.results import Outcome
from cse_train.training import loop
from cse_train.training import program as trainer_run
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from tests.commands import printed

SPACE = """version: 1
id: mine
method: simcse
seeds: 1
set:
  train.encoder: words-l1-h64
  train.corpus: generated
  train.dev: "generated_dev:40"
  train.examples: 640
  train.batch_size: 16
space:
  method.temperature: {grid: [0.05, 0.1]}
"""


MB = 2**20
CHILD = "block = bytearray(int(input()) * 2**20); print('up', flush=True); input()"


class Titled:
    """A process with a title as Ray gives it, that takes some MB beside Python itself; a child of this one."""

    def __init__(self, title: str, megabytes: int) -> None:
        argv, pipe = [title, "-S", "-c", CHILD], subprocess.PIPE
        self.process = subprocess.Popen(argv, executable=sys.executable, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdin is not None and self.process.stdout is not None
        print(megabytes, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "up\n"

    def __enter__(self) -> "Titled":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate("\n", timeout=20)


def test_only_the_workers_of_this_process_count() -> None:
    watch = MemoryWatch(os.getpid())
    with Titled("ray::IDLE", 200), Titled("ray::DashboardAgent", 200), Titled("python", 200):
        watch.sample()
        others = watch.peak
        with Titled("ray::Slot.step", 100) as slot, Titled("ray::RayTrainWorker", 50):
            watch.sample()
            stranger = MemoryWatch(slot.process.pid)
            stranger.sample()
    # The session's Ray, where one runs, has workers of its own.
    assert 150 * MB < watch.peak - others < 200 * MB and stranger.peak == 0
    peak = watch.peak
    watch.sample()
    assert watch.peak == peak, "a peak stays"


def advised(node: Node, group_gb: float = 2.0, gpu_gb: float = 0.0, **options: float) -> Packing:
    measured = Measurement(group_gb=group_gb, gpu_gb=gpu_gb, gpu_size_gb=80, seconds=1, examples=1)
    return packing(measured, SweepOptions(storage=Path("/runs"), **options), node)  # type: ignore[arg-type]


def test_cores_and_measured_memory_limit_a_packing() -> None:
    assert advised(Node(cpus=8, gpus=0, memory_gb=64)) == Packing(8)
    assert advised(Node(cpus=8, gpus=0, memory_gb=64), group_gb=15) == Packing(3)
    assert advised(Node(cpus=8, gpus=0, memory_gb=64), group_gb=100) == Packing(1)
    assert advised(Node(cpus=8, gpus=0, memory_gb=64), workers=2) == Packing(4)


def test_a_gpu_is_shared_by_as_many_as_its_memory_holds() -> None:
    node = Node(cpus=16, gpus=1, memory_gb=128)
    assert advised(node, gpu_gb=20, gpus_per_worker=1) == Packing(3, 0.3333)
    assert advised(node, gpu_gb=50, gpus_per_worker=1) == Packing(1, 1.0)
    assert advised(node, gpu_gb=1, gpus_per_worker=0.5) == Packing(16, 0.0625)
    assert advised(Node(cpus=16, gpus=4, memory_gb=128), gpu_gb=20, gpus_per_worker=1) == Packing(12, 0.3333)
    assert str(advised(node, gpu_gb=20, gpus_per_worker=1)) == "--max-concurrent 3 --gpus-per-worker 0.3333"


LARGE = """version: 1
id: mine
method: simcse
seeds: 1
set: {train.corpus: generated, train.dev: "generated_dev:40", train.examples: 640}
space:
  train.encoder: {grid: [words-l4-h128, words-l1-h64]}
  train.batch_size: {grid: [16, 64]}
  train.max_seq_length: {grid: [64, 32]}
"""


def test_the_cell_that_takes_most_memory_is_tried(somewhere: Path) -> None:
    Path("mine.yaml").write_text(LARGE)
    planned, examples = probe.largest_run(resolve(load_space("mine.yaml"), None, {}), DataPaths(), 1, None)
    largest = {"train.encoder": "words-l4-h128", "train.batch_size": 64, "train.max_seq_length": 64}
    assert planned.cell == largest and examples == 640
    assert planned.run.train.examples == 200 * 64


def run_with(**train: object) -> RunConfig:
    return parse_run({"method": "simcse", **{f"train.{name}": value for name, value in train.items()}})


def test_a_step_grows_with_tokens_width_and_layers(tmp_path: Path) -> None:
    assert probe.size_of(run_with(encoder="words-l4-h128", batch_size=64, max_seq_length=32)) == 64 * 32 * 128 * 4
    folder, vectors = tmp_path / "encoder", tmp_path / "words.txt"
    shutil.copytree(find_weights() / "words-l1-h64", folder)
    vectors.write_text("a 1 2\n")
    assert [probe.shape_of(str(place)) for place in (folder, vectors)] == [(1, 64), (1, 1)]
    documents = {"method": "declutr", "train.batch_size": 4, "train.encoder": "words-l1-h64", "method.max_length": 512}
    assert probe.size_of(parse_run(documents)) == 4 * 512 * 64, "spans are as long as the method says"


def test_what_others_take_on_a_card_counts_for_nothing(tmp_path: Path) -> None:
    assert card_peak.read_peak(tmp_path) is None
    (tmp_path / card_peak.NOTE).write_text('{"held": 5, "size": 9}')
    assert card_peak.read_peak(tmp_path) == card_peak.CardPeak(held=5, size=9)


def test_a_part_of_a_card_is_advised_with_a_word_on_mps(somewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SweepOptions] = []

    def measure(run: object, paths: object, options: SweepOptions) -> Measurement:
        asked.append(options)
        return Measurement(group_gb=2, gpu_gb=20, gpu_size_gb=80, seconds=4, examples=160)

    monkeypatch.setattr(probe, "measure", measure)
    monkeypatch.setattr(probe, "this_machine", lambda: Node(cpus=16, gpus=1, memory_gb=128))
    Path("mine.yaml").write_text(SPACE)
    options = SweepOptions(storage=Path("/runs"), gpus_per_worker=0.5)
    *_, shape, shared = probe.probe(resolve(load_space("mine.yaml"), None, {}), DataPaths(), options)
    assert [options.gpus_per_worker for options in asked] == [1], "it is measured on a whole card"
    assert shape.line.endswith(f"cse run {Path('mine.yaml').resolve()} --max-concurrent 3 --gpus-per-worker 0.3333")
    assert "take turns" in shared.line and "nvidia-cuda-mps-control -d" in shared.line


def test_two_ranks_never_share_a_gpu() -> None:
    node = Node(cpus=16, gpus=2, memory_gb=128)
    assert advised(node, gpu_gb=1, workers=2, gpus_per_worker=1) == Packing(1, 1)


@pytest.mark.parametrize("options", [(), ("mine.yaml", "--address", "127.0.0.1:1")])
def test_a_probe_needs_a_space_and_this_machine(capsys: pytest.CaptureFixture[str], options: tuple[str, ...]) -> None:
    assert main(["doctor", "--probe", *options]) == 2
    assert capsys.readouterr().err.startswith("cse: no probe: --probe trains one run here; give FILE or ID")


def test_a_probe_that_fails_stops_with_its_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ConfigError(["probe failed: Diverged; lower the rate"])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "measure", fails)
    Path("mine.yaml").write_text(SPACE)
    assert main(["doctor", "mine.yaml", "--probe"]) == 2
    assert "stop  probe     probe failed: Diverged; lower the rate" in capsys.readouterr().out


def test_a_probe_tells_what_was_measured_and_how_to_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measurement(group_gb=1.5, seconds=4, examples=160)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "measure", lambda *_: measured)
    Path("mine.yaml").write_text(SPACE)
    said = printed(capsys, "doctor", "mine.yaml", "--probe")
    assert "temperature=0.05: 160 examples in 4.0 s, at most 1.5 GB" in said
    assert "a whole run at this speed, alone on the machine: about 16 s" in said
    assert f"; cse run {Path('mine.yaml').resolve()} --max-concurrent " in said


@pytest.mark.parametrize("train", [card_peak.train, trainer_run.train], ids=["probe", "own trainer"])
def test_what_stands_in_for_the_loop_takes_all_that_a_worker_gives_it(train: Callable[..., Outcome]) -> None:
    wanted = inspect.signature(loop.train).parameters
    assert list(inspect.signature(train).parameters) == list(wanted)


@pytest.mark.slow
def test_a_real_probe_measures_a_group(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Measurement] = []
    measure = probe.measure
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(probe, "measure", lambda *given: measured.append(measure(*given)) or measured[0])
    Path("mine.yaml").write_text(SPACE)
    assert main(["doctor", "mine.yaml", "--probe", "--set", "train.examples=320"]) == 0
    assert f"; cse run {Path('mine.yaml').resolve()} --max-concurrent " in capsys.readouterr().out
    assert measured[0].examples == 320 and measured[0].seconds > 0
    assert 0.3 < measured[0].group_gb < 8
