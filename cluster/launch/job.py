"""A sweep that shall run elsewhere: the command line of its driver there, as data, and the program that takes it."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from cluster.launch.config import ClusterConfig
from cluster.launch.files import pack_files
from cluster.runtime.ray_internals import HEAD_RESOURCE
from cse_train.fields import ConfigError

RESOURCES = '{"trial_slot": 1024}'
"""Each node brings as many places for slots as it may ever need: CPUs, GPUs and RAM are what limits them."""
ON_HEAD = json.dumps({HEAD_RESOURCE: 0.001})
"""Keeps a driver on the head, which is the last node to be taken away."""


@dataclass(frozen=True)
class LaunchJob:
    """A sweep and the cluster that shall run it."""

    config: ClusterConfig
    command: tuple[str, ...] = ()
    """`run` or `reproduce` with all that follows; empty for a cluster without a sweep."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The user's own that the command names by relative paths -> text."""

    def argv(self, python: str, address: str) -> list[str]:
        """The driver's command line on the cluster."""
        command = [*self.command, "--address", address]
        if not self.files:
            return [python, "-m", "cse", *command]
        folder = str(Path(self.config.storage, "launched"))
        return [python, "-m", "cluster.launch.files", folder, pack_files(self.files), *command]


def ray_version() -> str:
    """The Ray that is installed here, which nodes and images must have too."""
    return version("ray")


def send(text: str, command: Sequence[str], advice: str) -> str:
    """Give the text to the standard input of a program here; its answer. ConfigError where it is absent or refuses."""
    if shutil.which(command[0]) is None:
        raise ConfigError([f"no client: {command[0]} is not installed; {advice}, or give --dry-run and take the text"])
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError([f"{command[0]} refused: {reason}; --dry-run prints what it was given"])
    return done.stdout.strip()
