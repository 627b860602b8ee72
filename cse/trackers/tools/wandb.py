"""Weights & Biases: a group for each sweep in the project WANDB_PROJECT, or `cse-search`; WANDB_MODE=offline works."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("WANDB_SILENT", "true")  # read at the import; what it prints would stand within the progress

import wandb

from analysis.run_state import RunState
from cse.trackers.tools import TrackedRun
from cse_train.fields import ConfigError

PROJECT = "cse-search"
FINISH_S = 60.0
"""Seconds that the end of one run may wait for the network."""
EXIT = {RunState.FAILED: 1, RunState.LOST: 255}


class Tracker:
    """A run's ID is its signature, so that another call of the command goes on with it."""

    def __init__(self, storage: Path) -> None:
        # While Ray runs, the working folder is not the user's.
        self._folder = str(Path(os.environ.get("WANDB_DIR", ".")).resolve())
        mode = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
        self._settings = wandb.Settings(
            mode=mode,
            silent=True,
            console="off",
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            finish_timeout=FINISH_S,
            finish_timeout_raises=True,
        )
        self._runs: dict[str, Any] = {}
        if mode == "online" and not wandb.login(prompt=False):
            raise ConfigError(["no login: track=wandb; give wandb login or WANDB_API_KEY, or set WANDB_MODE=offline"])

    def send(self, run: TrackedRun) -> None:
        shown = self._runs.get(run.signature) or self._open(run)
        there = shown.summary.get("examples") or 0 if run.whole else 0
        for examples, metrics in run.points:
            if examples > there:
                shown.log({"examples": examples, **metrics})
        shown.summary.update({**run.results, **run.notes})
        if run.ended:
            shown.tags = (*(shown.tags or ()), run.state.value)
            shown.finish(exit_code=EXIT.get(run.state, 0))
            del self._runs[run.signature]

    def close(self) -> None:
        for shown in self._runs.values():
            shown.finish()

    def _open(self, run: TrackedRun) -> Any:
        shown = self._runs[run.signature] = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            group=run.sweep[:128],
            name=run.name[:128],
            id=run.signature,
            dir=self._folder,
            config=dict(run.settings),
            resume="allow",
            reinit="create_new",
            settings=self._settings,
        )
        shown.define_metric("examples")
        shown.define_metric("*", step_metric="examples")
        return shown
