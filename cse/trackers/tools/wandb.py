"""Tracker for Weights & Biases: a group for each sweep, in the project WANDB_PROJECT or `cse-search`; also offline."""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("WANDB_SILENT", "true")  # read at the import; what it prints would stand within the progress

import wandb

from analysis.run_state import RunState
from cse.trackers.tools import TrackedRun
from cse_train.fields import ConfigError

PROJECT = "cse-search"
FINISH_SECONDS = 60.0
"""Seconds that the end of one run may wait for the network."""
EXIT = {RunState.FAILED: 1, RunState.LOST: 255}


class Tracker:
    """Sends runs to W&B under their signatures as IDs, so that a later command continues the same run."""

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
            finish_timeout=FINISH_SECONDS,
            finish_timeout_raises=True,
        )
        self._runs: dict[str, Any] = {}
        if mode == "online" and not wandb.login(prompt=False):
            raise ConfigError(["no login: track=wandb; give wandb login or WANDB_API_KEY, or set WANDB_MODE=offline"])

    def send(self, run: TrackedRun) -> None:
        wandb_run = self._runs.get(run.signature) or self._open(run)
        sent_examples = wandb_run.summary.get("examples") or 0 if run.whole else 0
        for examples, metrics in run.points:
            if examples > sent_examples:
                wandb_run.log({"examples": examples, **metrics})
        wandb_run.summary.update({**run.results, **run.notes})
        if run.ended:
            wandb_run.tags = (*(wandb_run.tags or ()), run.state.value)
            wandb_run.finish(exit_code=EXIT.get(run.state, 0))
            del self._runs[run.signature]

    def close(self) -> None:
        for wandb_run in self._runs.values():
            wandb_run.finish()

    def _open(self, run: TrackedRun) -> Any:
        wandb_run = self._runs[run.signature] = wandb.init(
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
        wandb_run.define_metric("examples")
        wandb_run.define_metric("*", step_metric="examples")
        return wandb_run
