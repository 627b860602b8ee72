"""A constant's name means one thing in the whole product, and so does a class's.

Read from the syntax trees alone, as the architecture is.
"""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.test_architecture import Tree, parsed

REGISTRIES = (
    "cse_train.evaluate.suites",
    "cse_train.methods",
    "cse.importers.sources",
    "cse.trackers.tools",
    "cluster.launch.targets",
)
"""Folders whose modules have the same names by contract: such a folder is one home of a name."""
ALSO = {"cse_train.evaluate.judgements": "cse_train.evaluate.suites"}
"""Modules elsewhere that keep a registry's contract."""


def home(module: str) -> str:
    """Where a name lives: the module, or its registry."""
    return ALSO.get(module) or next((folder for folder in REGISTRIES if module.startswith(folder + ".")), module)


def constants(tree: Tree) -> Iterator[tuple[str, str, str]]:
    """(name, module, value) of every assignment to a name in capitals at the top of a module."""
    for module, text in tree.texts.items():
        for node in parsed(text)[0].body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _annotated(node) else []
            for target in (part for whole in targets for part in ast.walk(whole)):
                if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_"):
                    yield target.id, module, ast.unparse(node.value)  # type: ignore[attr-defined]


def _annotated(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is not None


def with_two_values(planted: Mapping[str, str] | None = None) -> list[str]:
    """Each constant that stands for unlike values in two homes."""
    values: dict[str, dict[str, set[str]]] = {}
    for name, module, value in constants(Tree(planted)):
        values.setdefault(name, {}).setdefault(home(module), set()).add(value)
    return [
        f"{name}: two values, in {', '.join(sorted(homes))}; give each its own name"
        for name, homes in sorted(values.items())
        if len(homes) > 1 and len({frozenset(found) for found in homes.values()}) > 1
    ]


def with_two_homes(planted: Mapping[str, str] | None = None) -> list[str]:
    """Each class name that two homes define; inside a registry its modules share theirs."""
    homes: dict[str, set[str]] = {}
    for module, text in Tree(planted).texts.items():
        for node in parsed(text)[0].body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(home(module))
    return [f"{name}: two classes, in {', '.join(sorted(found))}" for name, found in homes.items() if len(found) > 1]


def test_a_constant_has_one_value() -> None:
    assert with_two_values() == []


def test_a_class_has_one_home() -> None:
    assert with_two_homes() == []


@pytest.mark.parametrize("file", ["cluster/plan/cost.py", "cse_train/methods/flow.py"])
def test_a_second_value_is_refused_by_name(file: str) -> None:
    (found,) = with_two_values({file: "TIE_MARGIN = 7\n"})
    assert found.startswith("TIE_MARGIN: two values, in analysis.statistics.looks, c")


def test_a_second_home_of_a_class_is_refused_by_name() -> None:
    (found,) = with_two_homes({"cluster/plan/cost.py": "class Ledger:\n    pass\n"})
    assert found == "Ledger: two classes, in analysis.ledger.ledger, cluster.plan.cost"
