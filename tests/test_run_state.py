"""A run's state is written in one module. What stands for other things is an enum, or a constant, of its own."""

import ast
from collections.abc import Iterator, Mapping

import pytest

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
