"""The program on this machine that takes a rendered file."""

import shutil
import subprocess
from collections.abc import Sequence

from cse_train.fields import ConfigError


def send(text: str, command: Sequence[str], advice: str) -> str:
    """Give the text to the program's standard input; its answer. ConfigError where it is absent or refuses."""
    if shutil.which(command[0]) is None:
        raise ConfigError([f"no client: {command[0]} is not installed; {advice}, or give --dry-run and take the text"])
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError([f"{command[0]} refused: {reason}; --dry-run prints what it was given"])
    return done.stdout.strip()
