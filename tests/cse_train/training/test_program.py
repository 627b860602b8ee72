"""A program's run: its process, its reports, how it ends, and that nothing it has started lives on."""

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cluster.slots.fault import error_event, fault_of
from cse_train.data_paths import DataPaths
from cse_train.plugins.trainer import TrainerScore
from cse_train.reading import MachineFault
from cse_train.results import Point
from cse_train.training import loop
from cse_train.training.program import ProgramFailed, train
from cse_train.training.program_folder import read_finished
from cse_train.training.wire import MARK_VARIABLE
from search_spaces.cells import resolve
from search_spaces.parse import parse_file
from tests.cse_train.training.programs import CALL, run_program

CURVE = """
    import cse
    for step, score in enumerate([0.25, 0.5, 0.125], 1):
        if cse.report(step, score=score, fraction=step / 3, loss=1 - score):
            (cse.best_folder() / "model.txt").write_text(str(step))
"""
FUNCTION = """
    def train(trial):
        state = trial.checkpoint_folder / "state.txt"
        begin = int(state.read_text()) if trial.resume_from else 0
        print("begins at", begin, trial.params["rate"], trial.seed)
        for step in range(begin + 1, 5):
            score = [0.1, 0.4, 0.3, 0.2][step - 1]
            if trial.report(step, score=score * trial.params["rate"], fraction=step / 4):
                (trial.best_folder / "model.txt").write_text(str(step))
            state.write_text(str(step))
            dies = trial.checkpoint_folder / f"dies-{step}"
            if step in trial_dies and not dies.exists():
                import os
                dies.touch()
                os.kill(os.getpid(), 9)
"""


def test_a_program_takes_all_that_a_worker_gives_a_training_function() -> None:
    assert [*inspect.signature(train).parameters] == [*inspect.signature(loop.train).parameters]


def test_a_script_reports_points_and_keeps_its_best_model(tmp_path: Path) -> None:
    ran = run_program(tmp_path, CURVE, score=TrainerScore(name="acc", scale=100))
    assert [(p.step, p.examples, p.metrics["acc"], p.best, p.best_examples) for p in ran.points] == [
        (1, 333, 25.0, 25.0, 333),
        (2, 667, 50.0, 50.0, 667),
        (3, 1000, 12.5, 50.0, 667),
    ]
    assert [p.metrics["loss"] for p in ran.points] == [0.75, 0.5, 0.875]
    assert (ran.outcome.stopped, ran.outcome.examples, ran.outcome.best) == (False, 1000, 50.0)
    best = tmp_path / "attempt-1" / "best"
    assert (best / "model.txt").read_text() == "2"
    mark = json.loads((best / "cse_run.json").read_text())
    assert (mark["step"], mark["score"], mark["seed"], mark["signature"]) == (2, 0.5, 0, "signature")
    assert sorted(path.name for path in (tmp_path / "attempt-1" / "last").iterdir()) == [
        "end.json", "output", "points.jsonl",
    ]  # fmt: skip
    assert read_finished(tmp_path / "attempt-1", "signature", 1000) == list(ran.outcome.points)
    assert read_finished(tmp_path / "attempt-1", "another", 1000) == []


def test_a_loss_is_kept_with_its_sign_turned_and_its_least_is_the_best(tmp_path: Path) -> None:
    ran = run_program(tmp_path, CURVE, score=TrainerScore(name="loss", direction="min"))
    assert [p.best for p in ran.points] == [-0.25, -0.25, -0.125]
    assert (tmp_path / "attempt-1" / "best" / "model.txt").read_text() == "3"


def test_a_length_in_steps_stands_in_place_of_fractions(tmp_path: Path) -> None:
    script = "import cse\nfor step in (10, 30): cse.report(step, score=step)\n"
    ran = run_program(tmp_path, script, steps=40)
    assert [p.examples for p in ran.points] == [10, 30]
    assert ran.outcome.examples == 40


def test_a_stop_of_the_scheduler_ends_the_program_in_order(tmp_path: Path) -> None:
    ran = run_program(tmp_path, CURVE + "\n    raise SystemExit(7)", stop=lambda point: point.step == 2)
    assert (ran.outcome.stopped, ran.outcome.examples, ran.outcome.best) == (True, 667, 0.5)
    assert read_finished(tmp_path / "attempt-1", "signature", 1000) == []


@pytest.mark.parametrize("dies", [(2,), (1, 3), (4,)])
@pytest.mark.parametrize("moves", [False, True])
def test_a_killed_program_goes_on_and_ends_as_an_undisturbed_one(
    tmp_path: Path, dies: tuple[int, ...], moves: bool
) -> None:
    def go(folder: Path, dies: tuple[int, ...]) -> list[tuple[int, float, float, int]]:
        attempt, before = 1, None
        while True:
            into = f"attempt-{attempt if moves else 1}"
            text = f"trial_dies = {dies}\n{textwrap.dedent(FUNCTION)}{CALL}"
            given = {"parameters": {"rate": 2.0}, "seed": 3}
            try:
                ran = run_program(folder, text, into=into, resume_from=before if moves else None, **given)
                break
            except MachineFault:
                attempt, before = attempt + 1, into
        assert attempt == len(dies) + 1
        assert [p.replayed for p in ran.points] == [p.step <= max(dies, default=0) for p in ran.points]
        assert (folder / into / "best" / "model.txt").read_text() == "2"
        return [(p.step, p.metrics["score"], p.best, p.best_examples) for p in ran.points]

    assert go(tmp_path / "killed", dies) == go(tmp_path / "whole", ())


ENDS = [
    ("raise ValueError('no such column: label')", "ValueError: no such column: label (mine.py:1 in <module>)"),
    ("import helper\nhelper.fail()", "KeyError: 'x' (helper.py:2 in fail)"),
    ("import json\njson.loads('{')", "(mine.py:2 in <module>)"),
    ("def f(:", "SyntaxError: invalid syntax (mine.py:1)"),
    ("import argparse\np = argparse.ArgumentParser(prog='mine.py')\np.add_argument('--need', required=True)\n"
     "p.parse_args()", "mine.py: error: the following arguments are required: --need"),
    ("import sys\nsys.exit('no data here')", "no data here"),
    ("import sys\nsys.exit(4)", "exit code 4: mine.py said nothing"),
    ("import os\nprint('last words', flush=True)\nos._exit(5)", "last words"),
    ("print('done')", "no score: trainer.score.name=score, and the program ended in order; it reported none"),
    ("import cse\ncse.report(1, score=float('nan'), fraction=1)", "no score: score=nan at step 1"),
    ("import cse\ncse.report(1, score=50, loss=float('nan'), fraction=1)", "diverged: loss=nan at step 1; the"),
    ("import cse\ncse.report(1, other=1, fraction=1)", "ValueError: no score: report(step=1) has no score"),
    ("import cse\ncse.report(1, score=1)", "ValueError: no length: report(step=1) without fraction="),
    ("import cse\ncse.report(1, score=1, fraction=100)", "no share: report(step=1) has fraction=100; give the share"),
    ("import cse\ncse.report(1, score=1, fraction=float('nan'))", "no share: report(step=1) has fraction=nan"),
    ("import cse\nfor _ in (1, 2): cse.report(2, score=1, fraction=.5)", "step twice: report(step=2)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), ENDS, ids=[line[:40] for _, line in ENDS])
def test_an_end_without_a_result_is_the_runs_own_fault_with_the_users_line(
    tmp_path: Path, text: str, line: str
) -> None:
    (tmp_path / "helper.py").write_text("def fail():\n    return {}['x']\n")
    with pytest.raises(ProgramFailed) as error:
        run_program(tmp_path, text)
    event = error_event(error.value)
    assert event.cause == "run"
    assert line in event.reason and "\n" not in event.reason
    assert "child.py" not in event.reason and "run.py" not in event.reason


def test_a_signal_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(MachineFault) as error:
        run_program(tmp_path, "import os\nos.kill(os.getpid(), 11)")
    assert (fault_of(error.value), str(error.value)) == ("machine", "program ended by SIGSEGV: mine.py")


def test_an_error_of_a_card_is_the_machines_fault(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed) as error:
        run_program(tmp_path, "raise RuntimeError('CUDA error: uncorrectable ECC error encountered')")
    assert fault_of(error.value) == "machine"


def test_what_a_program_forks_ends_with_it_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    forks = """
        import cse, os, time
        child = os.fork()
        if not child:
            time.sleep(600)
        cse.report(1, score=child, fraction=1)
    """
    begun = time.monotonic()
    child = int(run_program(tmp_path, forks).points[0].metrics["score"])
    assert time.monotonic() - begun < 60
    for _ in range(100):
        if not Path("/proc", str(child)).exists() or _is_dead(child):
            return
        time.sleep(0.1)
    raise AssertionError(f"process {child} lives on")


def _is_dead(process: int) -> bool:
    return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_program_that_prints_200_mb_ends_with_the_ends_of_its_output(tmp_path: Path) -> None:
    log = tmp_path / "rank0.log"
    prints = """
        import cse
        print("first line")
        for _ in range(200): print("x" * 1_000_000)
        print("last line")
        cse.report(1, score=1, fraction=1)
    """
    with log.open("a", buffering=1) as stream, contextlib.redirect_stdout(stream):
        print("of the rank")
        run_program(tmp_path, prints)
    text = log.read_text()
    assert text.startswith("of the rank\nfirst line\nxxx") and text.endswith("xxx\nlast line\n")
    assert 1_900_000 < os.path.getsize(log) < 2_100_000
    assert "bytes of output are left out" in text


def test_a_script_sees_its_own_folder_its_arguments_and_no_group(tmp_path: Path) -> None:
    asks = """
        import json, os, sys
        import cse, helper
        group = sorted({"RANK", "MASTER_ADDR"} & {*os.environ})
        facts = [os.getcwd(), sys.argv, __file__, __name__, helper.value, group]
        cse.report(1, score=1, fraction=1)
        (cse.best_folder() / "facts.json").write_text(json.dumps(facts))
    """
    (tmp_path / "helper.py").write_text("value = 7\n")
    os.environ["RANK"], os.environ["MASTER_ADDR"] = "0", "localhost"
    try:
        run_program(tmp_path, asks, parameters={"rate": 0.5}, seed=2)
    finally:
        del os.environ["RANK"], os.environ["MASTER_ADDR"]
    script = str(tmp_path / "mine.py")
    output = str(tmp_path / "attempt-1" / "last" / "output")
    assert json.loads((tmp_path / "attempt-1" / "best" / "facts.json").read_text()) == [
        str(tmp_path), [script, "--rate", "0.5", "--seed", "2", "--output_dir", output], script, "__main__", 7, [],
    ]  # fmt: skip


FLAGS = """
    import argparse
    import cse
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--big-model", action="store_true")
    parser.add_argument("--warmup", type=float, default=0.3)
    given = parser.parse_args()
    score = (0.9 if given.big_model else 0.5) + given.seed / 7 + given.warmup / 11
    cse.report(1, score=score, fraction=1)
    print(repr(score))
"""


@pytest.mark.parametrize(("warmup", "words"), [(None, []), (0.1, ["--warmup=0.1"])])
def test_null_beside_a_flag_gives_the_score_of_the_script_by_hand(
    warmup: float | None, words: list[str], tmp_path: Path
) -> None:
    """`--big-model` went with the null behind it: 0.5 for 0.9."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(FLAGS), encoding="utf8")
    args = ["--seed", "${seed}", "--big-model", "--warmup=${warmup}"]
    space = {
        "version": 1, "id": "mine", "trainer": {"script": "mine.py", "score": {"name": "score"}, "args": args},
        "space": {"warmup": {"grid": [None, 0.1]}}, "seeds": 1,
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(space), encoding="utf8")
    resolved = resolve(parse_file(tmp_path / "mine.yaml"))
    (cell,) = [cell for cell in resolved.cells() if cell.flat["warmup"] == warmup]
    points: list[Point] = []

    def report(point: Point) -> bool:
        points.append(point)
        return False

    train(cell.run(3), DataPaths(), tmp_path / "attempt-1", report, None, "signature")
    command = [sys.executable, str(tmp_path / "mine.py"), "--seed", "3", "--big-model", *words]
    by_hand = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert [point.metrics["score"] for point in points] == [float(by_hand)]


def test_a_metric_that_is_an_array_or_a_tensor_of_one_element_is_a_number(tmp_path: Path) -> None:
    reports = """
        import cse, numpy, torch
        several = numpy.array([1.0, 2.0])
        cse.report(
            1, fraction=1.01, score=torch.tensor(0.5), loss=torch.tensor([0.25], requires_grad=True),
            count=numpy.int64(3), half=numpy.float32(0.5), several=several, name="text", none=None,
        )
    """
    (point,) = run_program(tmp_path, reports).points
    assert point.metrics == {"score": 0.5, "loss": 0.25, "count": 3.0, "half": 0.5}


def test_report_does_nothing_outside_of_a_sweep() -> None:
    import cse

    assert (cse.report(1, score=1.0), cse.best_folder()) == (False, None)


def test_the_base_of_an_adapter_that_a_program_saves_is_noted_with_its_hash(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    saves = """
        import cse, json
        if cse.report(1, score=1, fraction=1):
            text = json.dumps({"base_model_name_or_path": "base"})
            (cse.best_folder() / "adapter_config.json").write_text(text)
    """
    run_program(tmp_path, saves)
    best = tmp_path / "attempt-1" / "best"
    base = str(tmp_path / "base")
    assert json.loads((best / "adapter_config.json").read_text()) == {"base_model_name_or_path": base}
    assert [*json.loads((best / "cse_run.json").read_text())["bases"]] == [base]


PATIENCE_S = 120.0
SLEEPS = "import os, time; open(f'pid-{os.getpid()}', 'w').close(); time.sleep(600)"
"""A process that notes its number in the folder."""
STARTS = """
import os, pathlib, subprocess, sys, time
import cse

sleeps = [sys.executable, "-c", {sleeps!r}]
subprocess.Popen(sleeps, start_new_session=True)
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execv(sys.executable, sleeps)
    os._exit(0)
{more}
while len([*pathlib.Path().glob("pid-*")]) < {number}:
    time.sleep(0.05)
cse.report(1, score=1, fraction=1)
(cse.best_folder() / "model.txt").write_text("1")
{end}
"""
TORCHRUN = """
pathlib.Path("rank.py").write_text(sleeps[2])
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "rank.py"]
subprocess.Popen(torchrun)
import torch.utils.data


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        pathlib.Path(f"pid-{os.getpid()}").touch()
        return at


loader = iter(torch.utils.data.DataLoader(Rows(), num_workers=2, persistent_workers=True))
next(loader)
"""
ENDINGS = {"in order": "", "by a signal": "os.kill(os.getpid(), 9)", "by an error": "1 / 0"}


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of nobody's run, one of them of another run's."""
    marks = ({}, {MARK_VARIABLE: "another"}, {"NAMES": MARK_VARIABLE})
    started = [subprocess.Popen(["sleep", "600"], env=os.environ | mark, start_new_session=True) for mark in marks]
    yield started
    for process in started:
        process.kill()
        process.wait()


def _is_alive(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _assert_all_end(folder: Path, number: int, strangers: list[subprocess.Popen[bytes]]) -> None:
    processes = [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]
    assert len(processes) >= number
    until = time.monotonic() + PATIENCE_S
    while any(map(_is_alive, processes)) and time.monotonic() < until:
        time.sleep(0.1)
    assert [process for process in processes if _is_alive(process)] == []
    assert all(process.poll() is None for process in strangers)


@pytest.mark.parametrize("end", ENDINGS)
def test_what_a_program_has_started_in_sessions_of_its_own_ends_with_it(
    tmp_path: Path, end: str, strangers: list[subprocess.Popen[bytes]]
) -> None:
    try:
        run_program(tmp_path, STARTS.format(sleeps=SLEEPS, more="", number=2, end=ENDINGS[end]))
    except (MachineFault, ValueError):
        assert end != "in order"
    _assert_all_end(tmp_path, 2, strangers)


RANK = """
import sys
from pathlib import Path
from tests.cse_train.training.programs import run_program

run_program(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("whose", ["rank", "program"])
def test_ranks_of_torchrun_and_workers_of_a_loader_end_with_a_rank_or_a_program_that_is_killed(
    tmp_path: Path, whose: str, strangers: list[subprocess.Popen[bytes]]
) -> None:
    end = "pathlib.Path('begun').touch()\ntime.sleep(600)"
    text = tmp_path / "text"
    text.write_text(STARTS.format(sleeps=SLEEPS, more=f"{TORCHRUN}\npathlib.Path('me').write_text(str(os.getpid()))",
                                  number=6, end=end))  # fmt: skip
    rank = subprocess.Popen([sys.executable, "-c", RANK, str(tmp_path), str(text)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + PATIENCE_S * 2
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.1)
    os.kill(rank.pid if whose == "rank" else int((tmp_path / "me").read_text()), signal.SIGKILL)
    rank.wait(PATIENCE_S)
    _assert_all_end(tmp_path, 6, strangers)
