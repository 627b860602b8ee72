"""What a Python file defines at its top level, read without running it: whether it is a method, a suite or neither."""

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cse_train.fields import ConfigError

Kind = Literal["method", "suite"]
CONTRACT: dict[Kind, tuple[str, ...]] = {
    "method": ("VERSION", "Config", "make_collate", "build"),
    "suite": ("NAME", "COLUMNS", "NEEDS", "evaluate"),
}
"""What a module of each kind must define (`cse_train.methods.base`, `cse_train.evaluate.suites.registry`)."""
TELLING: dict[Kind, tuple[str, ...]] = {"method": ("make_collate", "build"), "suite": ("evaluate",)}
"""Of these a module of the kind defines one at least, beside another name of the contract."""


@dataclass(frozen=True)
class Definitions:
    """The names of a file, and its `NAME` where that is a plain text."""

    names: frozenset[str]
    name: str | None
    open_ended: bool
    """Whether `from x import *` may bring any other name."""

    def kind(self) -> Kind | None:
        """What the file is, where that is clear."""
        for kind, contract in CONTRACT.items():
            if self.names & set(TELLING[kind]) and len(self.names & set(contract)) > 1:
                return kind
        return None

    def missing(self, kind: Kind) -> list[str]:
        """The names of the contract that are not defined."""
        return [] if self.open_ended else [name for name in CONTRACT[kind] if name not in self.names]


def scan(file: Path) -> Definitions:
    """The definitions of a file; ConfigError with the line where it is no Python."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        reason = getattr(error, "msg", None) or str(error)
        raise ConfigError([f"no Python: plugin={file}:{line} ({reason}); correct that line"]) from None
    names: set[str] = set()
    suite_name = None
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            given = {target.id for target in targets if isinstance(target, ast.Name)}
            names |= given
            if "NAME" in given and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                suite_name = node.value.value
    return Definitions(frozenset(names), suite_name, "*" in names)


def _statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module, those under `if` and `try` too."""
    nested = [part for node in body if isinstance(node, ast.If | ast.Try) for part in _statements(node.body)]
    return [*body, *nested]
