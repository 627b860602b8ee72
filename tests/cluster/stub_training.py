"""A stub of `cse_train.training.loop.train` that costs nothing and misbehaves on request.

`paths.train_file` names a JSON file: seed (or "" for all) -> {score, pause, tail, at, raise_on, diverge_on, kill_on,
always}.
"""

import json
import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

from cse_train.results import CosinesFile, Outcome, Point, Protocol, Score
from cse_train.training import loop


class Diverged(RuntimeError):
    pass


def train(run, paths, folder, report, resume_from=None, **how):
    script = json.loads((paths.documents or paths.train_file).read_text())
    behaviour = script.get("", {}) | script.get(str(run.train.seed), {})
    rank = dist.get_rank() if dist.is_initialized() else 0
    total, evaluations = run.train.examples, run.train.evaluations
    done = _load(folder) or _load(resume_from)
    for step in range(evaluations):
        examples = total * (step + 1) // evaluations
        best = behaviour.get("score", run.train.seed) + 10.0 * (step + 1) / evaluations
        replayed = step < done
        if not replayed:
            _misbehave(behaviour, rank, step, folder)
            _together()
            time.sleep(behaviour.get("pause", 0))
            _save(folder, rank, step + 1)
        point = Point(examples, step + 1, 0.1, {run.train.dev: best, "loss": 1.0}, best, examples, replayed)
        if report(point):
            return Outcome(True, examples, best, examples, 0.1, ())
    time.sleep(behaviour.get("tail", 0))
    return Outcome(False, total, best, total, 0.1, ())


def score(best_folder, suites, paths, out, signature=None, encoder=None):
    _together()
    out.mkdir(exist_ok=True)
    file = out / "cosines-a.npz"
    file.write_text("x")
    kept = CosinesFile(file, "h")
    return [
        Score(suite=suite, metric="spearman", value=50.0, protocol=Protocol.read({"suite": suite}), file=kept)
        for suite in suites
    ]


def _misbehave(behaviour, rank, step, folder):
    if behaviour.get("at", 0) != step:
        return
    once = Path(folder, "misbehaved")
    if rank == behaviour.get("raise_on"):
        raise KeyError("the real error")
    if rank == behaviour.get("diverge_on"):
        raise Diverged("loss is nan after 8 examples; lower train.learning_rate")
    if rank == behaviour.get("kill_on") and (behaviour.get("always") or not once.exists()):
        once.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _together():
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(torch.ones(4))


def _load(folder):
    state = Path(folder, "last", "state.json") if folder else None
    return json.loads(state.read_text()) if state and state.exists() else 0


def _save(folder, rank, step):
    if rank:
        return
    for name in ("last", "best"):
        Path(folder, name).mkdir(parents=True, exist_ok=True)
    aside = Path(folder, "last", ".aside")
    aside.write_text(json.dumps(step))
    os.replace(aside, Path(folder, "last", "state.json"))


def mixed(run, paths, folder, report, **how):
    """The real loop, but the stub for seeds that the script (here `paths.documents`) names."""
    stub = str(run.train.seed) in json.loads(paths.documents.read_text())
    return (train if stub else loop.train)(run, paths, folder, report, **how)
