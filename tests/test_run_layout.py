"""The layout of a run's folder is written in one module, and what training writes in cse_train's own."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from analysis.run_folder import RunFolder, home_of
from tests.test_architecture import Tree, parsed

HOMES = ("analysis.run_folder", "cse_train.files", "cse_train.checkpoint")
PARTS = frozenset(("best", "last", "scores", "logs", "runs"))
"""Names that are the layout's where they are a part of a path; elsewhere they are words."""
ALONE = re.compile(
    r"attempt\.json|unbooked|(attempt|final|unbooked)-|/?(best|last|scores|logs|runs)/.*|/(best|last|logs)"
)
"""Texts that can be nothing else."""


def problems(planted: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every name of the layout outside of HOMES."""
    tree = Tree(planted)
    for name, path in tree.files.items():
        if name not in HOMES:
            for line, text in sorted(_names(parsed(tree.texts[name])[0])):
                yield f"{path}:{line}: {text!r} is of a run's layout: analysis.run_folder.RunFolder says where it lies"


def _names(tree: ast.Module) -> set[tuple[int, str]]:
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set[tuple[int, str]]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            found |= {(node.lineno, node.value)} if ALONE.fullmatch(node.value) else set()
        for part in _parts(node):
            if isinstance(part, ast.Constant) and part.value in PARTS:
                found.add((part.lineno, part.value))
    return found


def _parts(node: ast.AST) -> list[ast.expr]:
    """What stands as a part of a path: behind `/`, in `Path(...)`, beside `.name`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.right]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Path", "joinpath", "with_name")):
        return node.args
    if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith(".name"):
        return node.comparators
    return []


def test_no_module_writes_the_layout_but_the_one_of_run_folders() -> None:
    assert list(problems()) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(folder):\n    return folder / 'best'\n",
        "import pathlib\nLOGS = pathlib.Path('x', 'logs')\n",
        "def f(folder):\n    return folder.name == 'last'\n",
        "def f(row):\n    return f'{row.folder}/logs'\n",
        "import os\nMARK = 'attempt.json'\n",
    ],
)
def test_a_name_of_the_layout_elsewhere_is_refused_by_file_and_line(text: str) -> None:
    (line,) = problems({"cluster/sweep/new_files.py": text})
    assert line.startswith("cluster/sweep/new_files.py:2: ")


def test_an_attempt_has_one_folder_whose_name_says_how_it_stands(tmp_path: Path) -> None:
    folder = RunFolder.of_attempt(home_of(tmp_path, "abc"), 2, 3)
    assert folder.path == tmp_path / "runs" / "abc" / "attempt-2-3" and folder.end == "2-3"
    assert folder.published.path.name == "final-2-3" and folder.published.set_aside(2).path.name == "unbooked-2-3"
    assert RunFolder(tmp_path / "final").set_aside(4).path.name == "unbooked-4"
    assert RunFolder.around(folder.best) == RunFolder.around(folder.path) == folder
    assert [path.name for path in folder.published.other_names()] == ["attempt-2-3", "unbooked-2-3"]
    assert not folder.has_state and RunFolder.finished_in(folder.path.parent) == []
    (folder.last / ".half").mkdir(parents=True)
    assert not folder.has_state and list(folder.checkpoints()) == [("last", folder.last)]
