"""What a Python file defines at its top level, read without running it: whether it is a method, a suite or neither."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_train.fields import ConfigError

Kind = Literal["method", "suite"]
METHOD_CLASS = "Method"
"""A class with a base of this name is a method; its module has a `Config` beside it (`cse_train.api`)."""
WANTED_CLASSES = "a class of Method and its Config"
MODULE_NAMES: dict[Kind, tuple[str, ...]] = {
    "method": ("VERSION", "Config", "make_collate", "build"),
    "suite": ("NAME", "COLUMNS", "NEEDS", "evaluate"),
}
"""What a module of each kind must define: a method in the form of 0.1, and `cse_train.evaluate.suites.registry`."""
TELLING: dict[Kind, tuple[str, ...]] = {"method": ("make_collate", "build"), "suite": ("evaluate",)}
"""Of these a module of the kind defines one at least, beside another name of the contract."""


@dataclass(frozen=True)
class Definitions:
    """The names of a file, and its `NAME` where that is a plain text."""

    names: frozenset[str]
    name: str | None
    open_ended: bool
    """Whether `from x import *` may bring any other name."""
    has_method: bool = False
    """Whether a class of it is a method."""

    def kind(self) -> Kind | None:
        """What the file is, where that is clear."""
        if self.has_method:
            return "method"
        for kind, contract in MODULE_NAMES.items():
            if self.names & set(TELLING[kind]) and len(self.names & set(contract)) > 1:
                return kind
        return None

    def missing(self, kind: Kind) -> list[str]:
        """The names of the contract that are not defined."""
        wanted = ("Config",) if self.has_method else MODULE_NAMES[kind]
        return [] if self.open_ended else [name for name in wanted if name not in self.names]


def scan(file: Path) -> Definitions:
    """The definitions of a file; ConfigError with the line where it is no Python."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise ConfigError([f"no Python: plugin={file}:{line} ({reason}); correct that line"]) from None
    names: set[str] = set()
    suite_name, has_method = None, False
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            has_method |= isinstance(node, ast.ClassDef) and METHOD_CLASS in map(_base, node.bases)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given = {target.id for target in targets if isinstance(target, ast.Name)}
            names |= given
            if "NAME" in given and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                suite_name = node.value.value
    return Definitions(frozenset(names), suite_name, "*" in names, has_method)


def _base(node: ast.expr) -> str:
    """The last name of a base: of `Method`, `api.Method` and `Method[Config]` the same."""
    named = node.value if isinstance(node, ast.Subscript) else node
    return named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module, those under `if` and `try` too."""
    nested = [part for node in body if isinstance(node, ast.If | ast.Try) for part in _statements(node.body)]
    return [*body, *nested]
