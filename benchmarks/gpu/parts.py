"""The parts, and one of them in a process of its own with a time limit."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.record import CUT, DONE, FAILED, SKIPPED, PartRecord
from benchmarks.gpu.results import Results

REPO = Path(__file__).resolve().parents[2]
POLL = 0.5
"""Seconds between two looks at a part's process."""
GRACE = 5.0
"""Seconds that a process has to end before it is killed."""


@dataclass(frozen=True)
class Part:
    """Part of the GPU benchmark: a module of this folder, and the most minutes that a call gives it."""

    name: str
    title: str
    minutes: float
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Packages without which it is skipped."""

    def lacks(self) -> list[str]:
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def made(name: str, title: str, minutes: float, *arguments: str, needs: tuple[str, ...] = ()) -> Part:
    return Part(name, title, minutes, ("-m", *(arguments or (f"benchmarks.gpu.{name}",))), needs)


def run(part: Part, before: PartRecord | None, call: "Call", seconds: float, saw: Callable[[PartRecord], None]) -> None:
    """Run a part for so many seconds at most; `saw` gets its record whenever it has new items, and at the end."""
    before = before or PartRecord(CUT)
    if lacking := part.lacks():
        saw(PartRecord(SKIPPED, f"{', '.join(lacking)} cannot be imported by {sys.executable}"))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.json"
        Results(file, before.items, before.lines, before.facts).save()
        command = [sys.executable, *part.command, "--results", str(file), "--record", str(call.record)]
        command += ["--quick"] if call.quick else []
        begun = time.perf_counter()
        with (call.folder / f"{part.name}.log").open("ab") as log:
            log.write(f"\n$ {' '.join(command)}\n".encode())
            log.flush()
            child = subprocess.Popen(
                command, cwd=REPO, env=environment(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                ended = _wait(
                    child, begun + seconds, file, lambda: saw(_record(file, before, begun, call, CUT, "not ended"))
                )
            finally:
                stop(child)
        saw(_ending(part, file, before, begun, call, child.returncode if ended else None, seconds))


@dataclass(frozen=True)
class Call:
    """Settings and deadline that the parts of one call share."""

    folder: Path
    record: Path
    quick: bool
    machine: str


def environment() -> dict[str, str]:
    """Returns a part's environment: no hub, and the modules of this checkout in place of installed ones."""
    path = os.pathsep.join([str(REPO), *filter(None, [os.environ.get("PYTHONPATH")])])
    fixed = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    return os.environ | fixed


def _wait(child: subprocess.Popen[bytes], until: float, file: Path, look: Callable[[], None]) -> bool:
    """Returns whether the process ended in time; calls `look` whenever the process has replaced its file."""
    changed = file.stat().st_mtime_ns
    while child.poll() is None:
        if time.perf_counter() > until:
            return False
        if file.stat().st_mtime_ns != changed:
            changed = file.stat().st_mtime_ns
            look()
        time.sleep(POLL)
    return True


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started: they are one process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
    child.wait()


def _record(file: Path, before: PartRecord, begun: float, call: Call, state: str, why: str) -> PartRecord:
    now = Results.read(file)
    seconds = round(before.seconds + time.perf_counter() - begun, 1)
    return PartRecord(state, why, seconds, call.machine, now.items, now.lines, now.facts)


def _ending(
    part: Part, file: Path, before: PartRecord, begun: float, call: Call, code: int | None, seconds: float
) -> PartRecord:
    """The record of a part that ended with a code, or that was ended: None."""
    if code is None:
        return _record(file, before, begun, call, CUT, f"stopped after {seconds / 60:.1f} min; the next call goes on")
    errors = [f"{name}: {item['error']}" for name, item in Results.read(file).items.items() if item["error"]]
    if code == 0 and not errors:
        return _record(file, before, begun, call, DONE, "")
    log = f"{part.name}.log"
    if code:
        lines = (call.folder / log).read_text(encoding="utf8", errors="replace").strip().splitlines()
        errors.insert(0, f"exit code {code}: {lines[-1][:200]}")
    why = f"{errors[0]}{f', and {len(errors) - 1} more' if errors[1:] else ''} ({log})"
    return _record(file, before, begun, call, FAILED, why.replace("|", "/"))


def machine_facts() -> dict[str, object]:
    """`benchmarks.gpu.machine` in a process, so that this one holds no memory of the card."""
    command = [sys.executable, "-m", "benchmarks.gpu.machine"]
    done = subprocess.run(command, cwd=REPO, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{sys.executable}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))
