"""Rank's side of a run of the user's own program: starts its process, turns its reports into points, judges its end.

`program_child` is the process, which calls the user's code; its interface is `trial`, and `program_callback` joins the
Trainer of transformers. `program_folder` keeps the best model and the checkpoints through every kind of end.
"""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import torch

from cse_train import distributed
from cse_train.config import RunConfig
from cse_train.data_paths import DataPaths
from cse_train.evaluate.score import score_folder
from cse_train.fields import ConfigError
from cse_train.files import replace_text, write_digests
from cse_train.plugins import registry
from cse_train.plugins.source import HOME
from cse_train.plugins.trainer import Trainer
from cse_train.reading import MachineFault, WholeReason
from cse_train.results import Outcome, Point, Score
from cse_train.training.program_folder import BestModel, TrialFolder, find_checkpoint
from cse_train.training.trial import FIT
from cse_train.training.wire import MARK_VARIABLE, TRIAL_VARIABLE, Message, TrialOrder, Wire, end_marked

Report = Callable[[Point], bool]
NO_NAMES = "it reported none; its Trainer evaluates, or it calls cse.report"
"""Part of the message for a program that reported no metric at all."""

RESTART_SECONDS = (1, 2, 4, 8, 16, 32, 32)
"""Seconds to wait before each new start of a program whose folder another run uses.

The names of such folders have seconds in them, or minutes.
"""


class ProgramFailed(WholeReason, ValueError):
    """The user's program ended with an error, or without a score."""


class RanksParted(WholeReason, RuntimeError):
    """The program of one rank failed, perhaps because that of another rank did."""


def train(
    run: RunConfig,
    paths: DataPaths,
    folder: Path,
    report: Report,
    resume_from: Path | None = None,
    signature: str | None = None,
    save_minutes: float = 0.0,
) -> Outcome:
    """Runs the program of `run.method` in a process, resuming from what `folder` or `resume_from` keeps.

    Every rank of a process group calls this with the same arguments. Raises ProgramFailed for what the program does,
    MachineFault where a signal ended it, ConfigError where its folder is not here. `save_minutes` is ignored: a program
    writes its checkpoints when it likes.
    """
    plugin = registry.require("method", run.method)
    assert isinstance(plugin, Trainer), plugin
    return _Attempt(run, plugin, TrialFolder(folder), report, resume_from, signature or "").go()


class _Attempt:
    """One attempt at a program's run: its process, its points, and how it ended."""

    def __init__(
        self,
        run: RunConfig,
        trainer: Trainer,
        folder: TrialFolder,
        report: Report,
        resume_from: Path | None,
        signature: str,
    ) -> None:
        self.run, self.trainer, self.folder, self.report, self.signature = run, trainer, folder, report, signature
        self.leads = distributed.rank() == 0
        has_progress = folder.points_file.is_file() or find_checkpoint(folder.output) is not None
        if self.leads:
            if not has_progress and resume_from is not None and resume_from != folder.path:
                folder.take_over(resume_from)
            folder.output.mkdir(parents=True, exist_ok=True)
        distributed.barrier()
        self.earlier: list[Point] | None = folder.read_points()
        """Points of earlier attempts; None once the program has shown at which step it resumes."""
        self.points: list[Point] = []
        self.waiting: Point | None = None
        """Newest point, unreported until its model is saved: no point that the scheduler has heard of is lost."""
        self.seconds_before = self.earlier[-1].seconds if self.earlier else 0.0
        self.stopped, self.error, self.kinds = False, "", list[str]()
        self.shared = ""
        """Path with the time in its name to which another run writes as well; empty if there is none."""
        self.names = dict[str, None]()
        """Numeric metrics of the program's evaluations that lacked the score's name."""

    def go(self) -> Outcome:
        """Runs the program from its start to its end."""
        cwd = self.trainer.script.parent
        if not cwd.is_dir():
            raise ConfigError([f"no such folder: trainer.script={self.trainer.script} is not on this machine"])
        port = _find_port() if distributed.size() > 1 else 0
        self.start = time.perf_counter()
        code, line = self._listen(cwd, port)
        for seconds in RESTART_SECONDS:
            if not self.shared or self.points or distributed.size() > 1:  # what has reported does not start again
                break
            time.sleep(seconds)
            self.shared = ""
            code, line = self._listen(cwd, port)
        if self.shared:
            line = f"shared folder: {self.shared} is also written by another run of now"
            raise MachineFault(f"{line}; let the script name it by ${{output_dir}}")
        self._check_end(code, line)
        self._pass_on()
        self._settle(None)
        if self.trainer.fits:
            self._count_fits()
        return self._outcome()

    def _listen(self, folder: Path, port: int) -> tuple[int, str]:
        """Starts the program, handles its messages until it ends, and returns its exit code and its last line."""
        program = Program(self._order, folder, torch.get_num_threads(), port)
        try:
            for message in program.listen():
                self._hear(message, program)
                if self.error:
                    break
            return 1 if self.error and not self.kinds else program.wait(), program.last_line()
        finally:
            program.end()

    def _order(self, wire: int, life: int) -> TrialOrder:
        trainer, run = self.trainer, self.run
        flat = run.flat()
        params = {name: flat[name] for name, _ in trainer.parameters}
        variables = {"seed": str(run.train.seed), "output_dir": str(self.folder.output)}
        mark = {
            "program": trainer.name, "params": params, "seed": run.train.seed, "signature": self.signature,
            "score_name": trainer.score.name,
        }  # fmt: skip
        return TrialOrder(
            script=str(trainer.script), code=str(trainer.file), root=str(trainer.root), places=dict(trainer.places),
            arguments=trainer.arguments(params, **variables, best_dir=str(self.folder.best)),
            fit_ends=[(round(point.metrics.get(FIT, 1)) - 1, point.step) for point in self.earlier or ()],
            score=trainer.score.name, steps=trainer.steps, fits=trainer.fits,
            last=str(self.folder.last), best=str(self.folder.best), mark=mark, wire=wire, life=life, parent=os.getpid(),
            resumes=bool(self.earlier) or find_checkpoint(self.folder.output) is not None,
        )  # fmt: skip

    def _hear(self, message: Message, program: "Program") -> None:
        if "error" in message:
            self.error, self.kinds = str(message["error"]), list(message["kinds"])
        elif "shared" in message:
            self.shared = str(message["shared"])
        elif "names" in message:
            self.names.update(dict.fromkeys(message["names"]))
        elif "step" in message:
            self._hear_report(message, program)
        elif "decide" in message:
            self._pass_on()
            program.answer(stop=self.stopped)
        if not self.error and (world := message.get("world")) not in (None, distributed.size()):
            ranks = distributed.size()
            self.error = (
                f"ranks apart: workers={ranks}, and the program trains as {world}; "
                "let it join the group of its environment (torchrun's variables), or give --workers 1"
            )

    def _hear_report(self, message: Message, program: "Program") -> None:
        score, step = float(message["score"]), int(message["step"])
        if self.leads and not math.isfinite(score):
            self.error = f"no score: {self.trainer.score.name}={score} at step {step}; the program reports no number"
            return
        if self.leads and not math.isfinite(loss := message["metrics"].get("loss", 0.0)):
            self.error = f"diverged: loss={loss} at step {step}; the program's training has no number any more"
            return
        if self._settle(step):
            program.answer(best=False)
            return
        value = score * self.trainer.score.scale * (-1 if self.run.options.TURNED else 1)
        fit, fits, total = int(message["fit"]), self.trainer.fits, self._total
        fit_points = [point for point in self.points if not fits or point.metrics[FIT] == fit + 1]
        previous = fit_points[-1] if fit_points else None
        examples = step if self.trainer.steps and not fits else round(float(message["fraction"]) * total)
        if not fits:  # stages follow one another on one axis, each as long as the first
            total, examples = total * (fit + 1), examples + (0 if self.trainer.steps else total * fit)
        examples = max(previous.examples + 1 if previous else 1, min(total, examples))
        best = previous is None or value > previous.best
        is_kept = best if fits != "mean" else all(value > point.best for point in self.points)
        point = Point(
            examples=examples,
            step=step,
            seconds=self.seconds_before + time.perf_counter() - self.start,
            metrics={**message["metrics"], self.run.train.dev: value},
            best=value if previous is None or best else previous.best,
            best_examples=examples if previous is None or best else previous.best_examples,
        )
        self.points.append(point)
        if self.leads:
            self.folder.add_point(point)
        self.waiting = None if self.trainer.fits else point  # several fits are counted when all have ended
        program.answer(best=is_kept and self.leads)

    def _pass_on(self) -> None:
        """Reports the newest point to the scheduler, now that its model is saved."""
        if self.waiting is not None:
            point, self.waiting = self.waiting, None
            self.stopped = self.report(point)

    @property
    def _total(self) -> int:
        assert isinstance(self.run.train.examples, int)
        return self.run.train.examples

    def _settle(self, step: int | None) -> bool:
        """Reports the points of earlier attempts again, up to the step at which the program resumes.

        Returns True if the run is to stop there. `step`: the first new step; None if the program had nothing left to
        do. Only the first call does anything.
        """
        if self.earlier is None:
            return False
        points = [point for point in self.earlier if step is None or point.step < step]
        self.earlier, self.points = None, points
        if self.leads:
            BestModel(self.folder.last, self.folder.best, {}).settle(points[-1].step + 1 if points else 0)
            self.folder.write_points(points)
        for point in () if self.trainer.fits else points:
            if self.report(replace(point, replayed=True)):
                self.stopped = True
        return self.stopped

    def _count_fits(self) -> None:
        """Reports the result of several fits after all have ended: the last fit's points, or a point with the mean."""
        fits: dict[float, list[Point]] = {}
        for point in self.points:
            fits.setdefault(point.metrics[FIT], []).append(point)
        name, total = self.run.train.dev, self._total
        if self.trainer.fits == "mean":
            bests = {f"{FIT}{number:.0f}": max(p.metrics[name] for p in points) for number, points in fits.items()}
            mean = sum(bests.values()) / len(bests)
            newest = replace(self.points[-1], examples=total, best_examples=total)
            results = [replace(newest, metrics={**bests, name: mean}, best=mean)]
        else:
            results = fits[max(fits)]
        self.points = []
        for point in results:
            self.points.append(point)
            if self.report(point):
                self.stopped = True
                break

    def _check_end(self, code: int, line: str) -> None:
        """Raises an error if the process did not end in order, or reported nothing."""
        if self.error:
            if distributed.size() > 1 and "RuntimeError" in self.kinds:
                raise RanksParted(self.error)
            raise ProgramFailed(self.error) from (RuntimeError(self.error) if "RuntimeError" in self.kinds else None)
        if code < 0:
            raise MachineFault(f"program ended by {_name_signal(code)}: {self.trainer.script.name}")
        if code:
            raise ProgramFailed(line or f"exit code {code}: {self.trainer.script.name} said nothing")
        if not self.points and not self.earlier:
            name = self.trainer.score.name
            evaluations = f"its evaluations gave {', '.join(list(self.names)[:12])}" if self.names else NO_NAMES
            raise ProgramFailed(f"no score: trainer.score.name={name}, and the program ended in order; {evaluations}")

    def _outcome(self) -> Outcome:
        if self.leads:
            BestModel(self.folder.last, self.folder.best, {}).clean()
            write_digests(self.folder.path)
            if not self.stopped:
                replace_text(self.folder.end_file, json.dumps({"signature": self.signature}))
        newest = self.points[-1]
        examples = newest.examples if self.stopped else max(self._total, newest.examples)
        seconds = self.seconds_before + time.perf_counter() - self.start
        return Outcome(self.stopped, examples, newest.best, newest.best_examples, seconds, tuple(self.points))


def score_best(
    best_folder: Path,
    suites: Sequence[str],
    paths: DataPaths,
    out: Path,
    signature: str | None = None,
    encoder: str | None = None,
) -> list[Score]:
    """Scores a run's best model on suites; raises ConfigError if the run saved none that can be opened."""
    if not best_folder.is_dir():
        raise ConfigError([f"no model: the run saved none in its best folder, and evaluate={','.join(suites)}"])
    return score_folder(best_folder, suites, paths, out)


GROUP_VARIABLES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT",
    "ACCELERATE_TORCH_DEVICE",
)  # fmt: skip
"""Environment variables by which a program finds its process group; a run on one rank has none of them."""
LOG_BYTES = 20_000_000
"""Bytes of a program's output beyond which the middle of it is left out."""
LOG_END_BYTES = 1_000_000
"""Bytes of a long output that stay at each of its ends."""
LAST_LINE_BYTES = 20_000
"""Bytes at the end of a program's output in which its last line is looked for."""


class Program:
    """Process of a run's program, from its start to its end."""

    def __init__(self, order: Callable[[int, int], TrialOrder], folder: Path, threads: int, port: int) -> None:
        """Starts the process in `folder`; `order(wire, life)` builds its order from two file descriptors."""
        rank_end, program_end = socket.socketpair()
        life, self._alive = os.pipe()
        self.wire, self._mark = Wire(rank_end), uuid.uuid4().hex
        self._log = _open_log()
        self._start = os.fstat(self._log.fileno()).st_size
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "cse_train.training.program_child"],
                cwd=folder,
                env=_environment(threads, port)
                | {TRIAL_VARIABLE: order(program_end.fileno(), life).text(), MARK_VARIABLE: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                pass_fds=(program_end.fileno(), life),
                start_new_session=True,
            )
        finally:
            program_end.close()
            os.close(life)
        threading.Thread(target=self._await, daemon=True).start()

    def _await(self) -> None:
        """Ends `listen` when the process ends, although its forks may hold the other end of the socket for ever."""
        self._process.wait()
        with contextlib.suppress(OSError):
            self.wire.end()

    def listen(self) -> Iterator[Message]:
        """Yields the process's messages until it ends."""
        with contextlib.suppress(ConnectionError):
            yield from self.wire.listen()

    def answer(self, **message: Any) -> None:
        with contextlib.suppress(ConnectionError):
            self.wire.say(**message)

    def wait(self) -> int:
        """Waits for the process and returns its exit code, below 0 for a signal."""
        return self._process.wait()

    def end(self) -> None:
        """Ends the process and all that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        end_marked(self._mark)
        os.close(self._alive)
        _shorten(self._log, self._start)

    def last_line(self) -> str:
        """Returns the last non-empty line that the program printed; empty if there is none."""
        path = Path(str(self._log.name))
        with path.open("rb") as file:
            file.seek(max(self._start, file.seek(0, os.SEEK_END) - LAST_LINE_BYTES))
            lines = [line.strip() for line in file.read().decode("utf8", "replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")


def _open_log() -> IO[Any]:
    """Opens this rank's log if its output goes into a file, else a temporary file."""
    out = sys.stdout
    with contextlib.suppress(OSError, AttributeError, ValueError):
        if os.path.isfile(str(out.name)) and os.path.samestat(os.fstat(out.fileno()), os.stat(out.name)):
            return open(out.name, "ab")
    return tempfile.NamedTemporaryFile("ab", suffix=".log")


def _shorten(log: IO[Any], start: int) -> None:
    """Cuts the middle out of a log that is too long, and closes it."""
    path = Path(str(log.name))
    size = path.stat().st_size
    if size - start > LOG_BYTES:
        with path.open("r+b") as file:
            file.seek(size - LOG_END_BYTES)
            tail = file.read()
            file.truncate(start + LOG_END_BYTES)
            file.seek(0, os.SEEK_END)
            file.write(f"\n... {size - start - 2 * LOG_END_BYTES} bytes of output are left out ...\n".encode() + tail)
    log.close()


def _environment(threads: int, port: int) -> dict[str, str]:
    """Returns the environment of a program: with one rank no group's variables, with several those of its own group.

    The group of the program has a port of its own, because the ranks themselves use the other one.
    """
    env = {name: value for name, value in os.environ.items() if name not in GROUP_VARIABLES}
    size, rank = distributed.size(), distributed.rank()
    if size > 1:
        env |= {name: os.environ[name] for name in GROUP_VARIABLES if name in os.environ}
        env |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(port)}
        env |= {"LOCAL_RANK": env.get("LOCAL_RANK", str(rank))}
        if not distributed.has_card():  # else accelerate takes a CPU for a process of its own
            env["ACCELERATE_USE_CPU"] = "true"
    env["OMP_NUM_THREADS"] = str(threads)
    env["PYTHONUNBUFFERED"] = "1"
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), str(HOME)]))
    return env


def _find_port() -> int:
    """Returns a port that is free on the first rank's machine, the same number on every rank."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return distributed.share(probe.getsockname()[1])


def _name_signal(code: int) -> str:
    """Returns the name of the signal that an exit code below 0 stands for."""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
