"""A table format is one module: added to a copy of the project, `cse table` offers it and prints in it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.render import formats
from cse.cli.app import main

MODULE = '''
"""Tab-separated means."""


def render(table, verdicts, ordering):
    return "".join(f"{row.key}\\t{entry.mean}\\n" for row in table.rows for entry in row.entries.values())
'''


def test_the_folder_is_the_registry(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("analysis")
    (copy / "analysis" / "render" / "formats" / "tsv.py").write_text(MODULE, encoding="utf8")
    assert "--format csv|html|json|md|tex|tsv" in " ".join(called(copy, "table", "--help").split())
    lines = called(copy, "table", "E7", "--format", "tsv").splitlines()
    assert len(lines) == 8 and all(line.endswith("\tNone") for line in lines)


def test_every_format_says_what_it_is_and_renders() -> None:
    for name in formats.names():
        module = formats.load(name)
        assert module.__doc__ and callable(module.render)


def test_an_unknown_format_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "E7", "--format", "htm"]) == 2
    assert "unknown format: format=htm; did you mean html?" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(KeyError):
        formats.load("htm")
