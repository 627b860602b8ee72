"""A launch target is one module: added to a copy of the project, `cse launch` offers it and reads its block."""

from collections.abc import Callable
from pathlib import Path

import pytest

MODULE = '''
"""A shell line."""

import shlex

from cluster.launch.config import Block


class Settings(Block):
    """Where Python is."""

    python: str


def render(job, settings):
    return shlex.join(job.argv(settings.python, "auto")) + "\\n"


def submit(job, settings):
    return f"took {job.config.name}"
'''
CLUSTER = "version: 1\nname: mine\nstorage: /shared\nshell_line:\n  python: /opt/python\n"


def test_the_folder_is_the_registry(
    project_copy: Callable[..., Path], called: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "anna")
    copy = project_copy("cluster")
    (copy / "cluster" / "launch" / "targets" / "shell_line.py").write_text(MODULE, encoding="utf8")
    (copy / "cluster.yaml").write_text(CLUSTER, encoding="utf8")
    assert "shell-line" in called(copy, "launch", "--help")
    assert called(copy, "launch", "shell-line", "E7", "--dry-run") == (
        "/opt/python -m cse run E7 --storage /shared --ledger /shared/ledger.db --user anna --address auto\n"
    )
    assert called(copy, "launch", "shell-line", "E7") == "took mine\n"
