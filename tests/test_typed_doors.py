"""What a score, a point, an outcome, a protocol and a sweep's description are between functions: objects, not mappings.

Read from the syntax trees alone, as the architecture is.
"""

import ast
import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.test_architecture import REPO, Tree, parsed, problems

OBJECTS = ("score", "scores", "point", "points", "outcome", "protocol", "protocols", "spec", "cosines")
"""Names of parameters whose values have a class of their own."""
BORDERS = ("analysis.ledger.exchange", "cse.importers.sources")
"""Where records of files and databases pass."""
UNTYPED = re.compile(r"\b(Any|Json|object)\b|\b(dict|Mapping)\b(?!\[)")
MAPPING = re.compile(r"(dict|Mapping|MutableMapping)\[str, Any\]")
MAPPINGS = 51
"""Fewer than so many mappings of anything may stand in the product; 347 before."""


def untyped_doors(tree: Tree) -> Iterator[str]:
    """Functions that take one of OBJECTS as a mapping of anything."""
    for name, text in tree.texts.items():
        if name.startswith(BORDERS):
            continue
        for node in ast.walk(parsed(text)[0]):
            if isinstance(node, ast.FunctionDef):
                for given in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    kind = "" if given.annotation is None else ast.unparse(given.annotation)
                    if given.arg in OBJECTS and UNTYPED.search(kind):
                        yield f"{name}.{node.name}: {given.arg}: {kind}"


def mappings(tree: Tree) -> int:
    """How often the product says that a mapping may hold anything."""
    return sum(len(MAPPING.findall(text)) for text in tree.texts.values())


def test_no_function_takes_a_score_a_point_an_outcome_or_a_protocol_apart() -> None:
    assert list(untyped_doors(Tree())) == []


def test_few_mappings_hold_anything() -> None:
    assert mappings(Tree()) < MAPPINGS


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        (
            "cluster/sweep/recorder.py",
            "def f(score: dict[str, Any]) -> None: ...\n",
            "cluster.sweep.recorder.f: score: dict",
        ),
        ("analysis/tables/spec.py", "def f(protocol: Json) -> None: ...\n", "analysis.tables.spec.f: protocol: Json"),
        ("analysis/study/study.py", "def f(points: Any) -> None: ...\n", "analysis.study.study.f: points: Any"),
        ("analysis/answers/study.py", "def f(*, spec: dict) -> None: ...\n", "analysis.answers.study.f: spec: dict"),
    ],
)
def test_a_planted_mapping_is_refused_by_name(file: str, text: str, line: str) -> None:
    assert [found for found in untyped_doors(Tree({file: text})) if found.startswith(line)]


def test_planted_mappings_are_counted() -> None:
    planted = "x: dict[str, Any]\n" * MAPPINGS
    assert mappings(Tree({"analysis/tables/spec.py": planted})) == mappings(Tree()) + MAPPINGS


def test_a_module_by_its_name_is_refused_where_no_registry_is() -> None:
    """A typed `with deferred(__name__):` is what a command has for imports that wait."""
    found = problems(Tree({"cse/cli/results/ls.py": "from cse.cli.loader import load\nload('a.b').c()\n"}))
    assert [line for line in found if line.startswith("cse.cli.results.ls: imports by name, which is for ")]


def test_the_type_checker_is_strict_everywhere_but_for_what_torch_and_libraries_leave_open() -> None:
    settings = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf8"))["tool"]["mypy"]
    assert settings["strict"] is True and settings["untyped_calls_exclude"] == ["torch"]
    loosened = {key for override in settings["overrides"] for key in override} - {"module"}
    libraries = {"ignore_missing_imports", "follow_imports"}
    of_torch = {"warn_return_any", "disallow_untyped_calls", "disallow_untyped_defs", "disallow_incomplete_defs"}
    assert loosened - libraries == of_torch
    torch_alone = [override["module"] for override in settings["overrides"] if not libraries & override.keys()]
    assert all(module.startswith("cse_train.") for modules in torch_alone for module in modules)
