"""A sweep to be run elsewhere: its driver's command line there, and the program that submits it."""

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
"""Ray resources of each node: places for slots, so many that only CPUs, GPUs and RAM limit their number."""
CLIENT_TIMEOUT_SECONDS = 120
NAME_LENGTH = 35
"""Maximum number of characters of a job's name before the digest; with it 40, which every target accepts."""
ON_HEAD = json.dumps({HEAD_RESOURCE: 0.001})
"""Ray resources of a driver that keep it on the head, the last node to be taken away."""


@dataclass(frozen=True)
class LaunchJob:
    """A sweep and the cluster that is to run it."""

    config: ClusterConfig
    command: tuple[str, ...] = ()
    """Command `run` or `reproduce` with its arguments; empty for a cluster without a sweep."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Relative path in the command -> text of the user's file."""
    given_name: str | None = None
    limits: tuple[str, ...] = ()
    """Limits of the budget, as text for a person."""
    user: str = ""
    """User for whom the driver's runs count, since everybody may be root on the cluster; no part of `name`."""

    @property
    def name(self) -> str:
        """Name such as `cse-e7-3f2a`: cluster, what is run, and a digest; the same command has the same name."""
        if self.given_name or not self.command:
            return self.given_name or self.config.name
        content = json.dumps([self.config.name, self.command, sorted(self.files.items())])
        ids = itertools.takewhile(lambda word: not word.startswith("-"), self.command[1:])
        words = "-".join([self.config.name, *(Path(source).stem.lower() for source in ids)])
        start = re.sub(r"[^a-z0-9]+", "-", words)[:NAME_LENGTH].rstrip("-")
        return f"{start}-{hashlib.sha256(content.encode()).hexdigest()[:4]}"

    def argv(self, python: str, address: str) -> list[str]:
        command = [*self.command, *(["--user", self.user] if self.user else []), "--address", address]
        if not self.files:
            return [python, "-m", "cse", *command]
        folder = str(Path(self.config.storage, "launched"))
        return [python, "-m", "cluster.launch.files", folder, pack_files(self.files), *command]


def ray_version() -> str:
    """Returns the version of the installed Ray, which nodes and images must have too."""
    return version("ray")


def send(text: str, command: Sequence[str], advice: str) -> str:
    """Runs a local program with `text` as its input; returns its output, or raises ConfigError with its refusal."""
    if shutil.which(command[0]) is None:
        raise ConfigError([f"no client: {command[0]} is not installed; {advice}, or give --dry-run and take the text"])
    try:
        process = subprocess.run(command, input=text, capture_output=True, text=True, timeout=CLIENT_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        line = f"no answer: {command[0]} took longer than {CLIENT_TIMEOUT_SECONDS} s"
        raise ConfigError([f"{line}; see that the cluster answers, then give the same command"]) from None
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if line.strip() and not line.startswith("Try ")]
        reason = "; ".join(lines[-2:]) or f"exit code {process.returncode}"  # sbatch names the value in the line before
        raise ConfigError([f"{command[0]} refused: {reason}; --dry-run prints what it was given"])
    return process.stdout.strip()
