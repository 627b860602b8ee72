"""Who may import whom, read from the syntax trees."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
OURS = ("analysis", "benchmarks", "cluster", "cse_train", "search_spaces", "tests")
MODULES = sorted(p for package in ("analysis", "cluster", "cse_train") for p in (REPO / package).rglob("*.py"))
COMPOSITION_ROOT = ("cluster.cli", "cluster.commands")


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at any depth; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{dotted(path)}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def may_import(importer: str, name: str) -> bool:
    """The rules of the house for one import."""
    if within(importer, "analysis"):
        return not within(name, *(p for p in OURS if p != "analysis"), "ray", "torch", "optuna", "transformers")
    if within(importer, "cse_train"):
        return not within(name, *(p for p in OURS if p != "cse_train"), "ray", "optuna") and inside_cse_train(
            importer, name
        )
    if within(importer, *COMPOSITION_ROOT, "cluster.demo", "cluster.progress"):
        return not within(name, "tests", "benchmarks")
    return not within(name, "tests", "benchmarks", *COMPOSITION_ROOT)


def inside_cse_train(importer: str, name: str) -> bool:
    """`loop -> methods -> {losses, modules, text, distributed}`; losses know torch alone; methods not each other."""
    if within(importer, "cse_train.losses"):
        return name.split(".")[0] in {"torch", *sys.stdlib_module_names} or within(name, "cse_train.losses")
    if within(importer, "cse_train.methods"):
        return not within(name, "cse_train.loop", "cse_train.evaluate") and not another_method(importer, name)
    if within(importer, "cse_train.modules", "cse_train.text"):
        return not within(name, "cse_train.methods", "cse_train.loop", "cse_train.evaluate")
    return True


def another_method(importer: str, name: str) -> bool:
    folder = "cse_train.methods"
    methods = {p.stem for p in (REPO / "cse_train" / "methods").glob("*.py")} - {"__init__", "base"}
    return any(within(name, f"{folder}.{m}") for m in methods) and not within(name, importer)


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_point_one_way(path: Path) -> None:
    refused = [name for name in imported(path) if not may_import(dotted(path), name)]
    assert not refused, f"{dotted(path)} must not import {', '.join(refused)}"


@pytest.mark.parametrize(
    ("importer", "name"),
    [
        ("analysis.render", "torch"),
        ("analysis.ledger", "cse_train.fields.Range"),
        ("cse_train.loop", "ray.train"),
        ("cse_train.losses.info_nce", "cse_train.distributed.gather_with_grad"),
        ("cse_train.losses.info_nce", "numpy"),
        ("cse_train.methods.simcse", "cse_train.methods.esimcse.Config"),
        ("cse_train.modules.pooling", "cse_train.methods.base.Batch"),
        ("cluster.sweep", "cluster.commands.run"),
        ("cluster.cli", "tests.conftest"),
    ],
)
def test_the_rules_refuse(importer: str, name: str) -> None:
    assert not may_import(importer, name)


def test_only_one_module_calls_torch_distributed() -> None:
    callers = {dotted(p) for p in MODULES for name in imported(p) if within(name, "torch.distributed")}
    assert callers <= {"cse_train.distributed"} | {c for c in callers if within(c, "cluster")}


def test_search_spaces_hold_no_python() -> None:
    assert not list((REPO / "search_spaces").rglob("*.py"))


@pytest.mark.parametrize("name", ["utils.py", "common.py"])
def test_no_drawer_for_odds_and_ends(name: str) -> None:
    assert name not in {p.name for p in MODULES}


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_files_stay_under_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf8").splitlines()) <= 400
