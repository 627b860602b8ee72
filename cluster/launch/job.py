"""A sweep that shall run elsewhere: the command line of its driver there, as data, and the program that takes it."""

import hashlib
import itertools
import json
import re
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
CLIENT_LIMIT_S = 120
"""Patience with sbatch and kubectl."""
NAME_LENGTH = 35
"""Characters before the digest: 40 in all, which every target takes."""
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
    given_name: str | None = None
    """`--name`."""
    limits: tuple[str, ...] = ()
    """Of the budget, as a person reads them."""
    user: str = ""
    """Whose runs its driver counts among; there everybody may be root. The name does not hang on it."""

    @property
    def name(self) -> str:
        """`cse-e7-3f2a`: the cluster's name, what is run, and a digest of the command and its files.

        The same command has the same name; any other option gives another one.
        """
        if self.given_name or not self.command:
            return self.given_name or self.config.name
        content = json.dumps([self.config.name, self.command, sorted(self.files.items())])
        ids = itertools.takewhile(lambda word: not word.startswith("-"), self.command[1:])
        words = "-".join([self.config.name, *(Path(given).stem.lower() for given in ids)])
        start = re.sub(r"[^a-z0-9]+", "-", words)[:NAME_LENGTH].rstrip("-")
        return f"{start}-{hashlib.sha256(content.encode()).hexdigest()[:4]}"

    def argv(self, python: str, address: str) -> list[str]:
        """The driver's command line on the cluster."""
        command = [*self.command, *(["--user", self.user] if self.user else []), "--address", address]
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
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=CLIENT_LIMIT_S)
    except subprocess.TimeoutExpired:
        line = f"no answer: {command[0]} took longer than {CLIENT_LIMIT_S} s"
        raise ConfigError([f"{line}; see that the cluster answers, then give the same command"]) from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("Try ")]
        reason = "; ".join(lines[-2:]) or f"exit code {done.returncode}"  # sbatch names the value in the line before
        raise ConfigError([f"{command[0]} refused: {reason}; --dry-run prints what it was given"])
    return done.stdout.strip()
