"""Reads a Python file's top-level names without running it, and tells if it is a method, a suite or neither."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_train.fields import ConfigError

Kind = Literal["method", "suite"]
METHOD_CLASS = "Method"
"""Name of the base class of a method; its module also has a `Config` (`cse_train.api`)."""
WANTED_CLASSES = "a class of Method and its Config"
"""Part of messages that says what the file of a method must define."""
MODULE_NAMES: dict[Kind, tuple[str, ...]] = {
    "method": ("VERSION", "Config", "make_collate", "build"),
    "suite": ("NAME", "COLUMNS", "NEEDS", "evaluate"),
}
"""Kind -> names that its module must define: a method in the form of version 0.1, or a suite."""
KIND_MARKS: dict[Kind, tuple[str, ...]] = {"method": ("make_collate", "build"), "suite": ("evaluate",)}
"""Kind -> names of which its module defines at least one, together with another name of the contract."""


@dataclass(frozen=True)
class Definitions:
    """Top-level names of a file, and the value of its `NAME` if that is a plain text."""

    names: frozenset[str]
    name: str | None
    open_ended: bool
    """True if `from x import *` may bring any other name."""
    has_method: bool = False
    """True if one of the file's classes is a method."""

    def kind(self) -> Kind | None:
        """Returns the kind of plug-in that the file defines; None if that is not clear."""
        if self.has_method:
            return "method"
        for kind, contract in MODULE_NAMES.items():
            if self.names & set(KIND_MARKS[kind]) and len(self.names & set(contract)) > 1:
                return kind
        return None

    def missing(self, kind: Kind) -> list[str]:
        """Returns the names of a kind's contract that the file does not define."""
        required = ("Config",) if self.has_method else MODULE_NAMES[kind]
        return [] if self.open_ended else [name for name in required if name not in self.names]


def scan(file: Path) -> Definitions:
    """Returns the definitions of a file; raises ConfigError with the line if it is no Python."""
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
            assigned = {target.id for target in targets if isinstance(target, ast.Name)}
            names |= assigned
            if "NAME" in assigned and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                suite_name = node.value.value
    return Definitions(frozenset(names), suite_name, "*" in names, has_method)


def _base(node: ast.expr) -> str:
    """Returns the last name of a base class: the same for `Method`, `api.Method` and `Method[Config]`."""
    name = node.value if isinstance(node, ast.Subscript) else node
    return name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Returns the statements of a module, with those inside `if` and `try`."""
    nested = [part for node in body if isinstance(node, ast.If | ast.Try) for part in _statements(node.body)]
    return [*body, *nested]
