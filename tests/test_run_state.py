"""A run's state, and the layout of its folder, are each written in one module."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from analysis.run_folder import RunFolder, home_of
from analysis.run_state import CLAIMABLE, FINAL, HELD, NOT_HELD, UNCLAIMED, WITH_RESULT, RunState, standing
from tests.test_architecture import Tree, parsed

HOMES: Mapping[str, str] = {
    "analysis.run_state": "the states of a run",
    "cluster.sweep.events": "what happens in a sweep",
    "cse.site.content": "how far a table is",
    "cluster.slots.group_api": "Tune's name for a trial's last result",
    "cse.importers.sources.wandb": "how a run of W&B ended",
}
"""The modules that may write these words, and what the words stand for there."""
WORDS = frozenset((*RunState, UNCLAIMED))


def literals(planted: Mapping[str, str] | None = None) -> Iterator[str]:
    """Every text that is a state's, outside of HOMES."""
    tree = Tree(planted)
    for name, path in tree.files.items():
        if name not in HOMES:
            for node in ast.walk(parsed(tree.texts[name])[0]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in WORDS:
                    yield f"{path}:{node.lineno}: '{node.value}' is a state: analysis.run_state.RunState names it"


def test_no_module_writes_a_state_but_the_one_of_states() -> None:
    assert list(literals()) == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [("ENDED = ('done', 'stopped')\n", [1, 1]), ("def f(row):\n    return row.state == 'lost'\n", [2])],
)
def test_a_state_that_is_written_elsewhere_is_refused_by_file_and_line(text: str, lines: list[int]) -> None:
    found = list(literals({"cluster/plan/new_cost.py": text}))
    assert [line.partition(": ")[0] for line in found] == [f"cluster/plan/new_cost.py:{line}" for line in lines]


def test_the_groups_of_states_fit_together() -> None:
    assert {*HELD, *NOT_HELD} == {*RunState} and not {*HELD} & {*NOT_HELD}
    assert {*CLAIMABLE} == {*NOT_HELD} - {RunState.DONE} and {*WITH_RESULT} < {*FINAL} < {*NOT_HELD}
    assert [state for state in RunState if state.is_final and not state.has_result] == [RunState.FAILED]
    assert standing(RunState.RUNNING, live=False) is RunState.LOST
    assert standing(RunState.FAILED, live=False) is RunState.FAILED


LAYOUT_HOMES = ("analysis.run_folder", "cse_train.files", "cse_train.checkpoint")
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
        if name not in LAYOUT_HOMES:
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
