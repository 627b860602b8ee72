"""A method's own code, by digest: what edited code computes must not be taken for what was computed before the edit.

A released method follows its VERSION, and `released_methods.json` has the digest of its code as released. A method
that is not in the file, or whose code is another one, has its digest among its runs' inputs: an edit gives its runs new
signatures. Comments, docstrings and blank lines do not count. `python -m cluster.plan.method_code` writes the file.
"""

import ast
import functools
import hashlib
import importlib.util
import io
import json
import os
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cse_train import methods
from cse_train.config import RunConfig

RELEASED = Path(__file__).with_name("released_methods.json")
AS_RELEASED = "released"
OURS = ("analysis", "cluster", "cse", "cse_train", "search_spaces")
METHODS = "cse_train.methods"
CONTRACT = (METHODS, f"{METHODS}.base", f"{METHODS}.options")
"""Of all methods alike."""


@dataclass(frozen=True)
class ChangedCode:
    """Finished runs of one method that today's code would train again."""

    method: str
    runs: int
    before: tuple[str, ...]
    """Their digests, or `released`."""
    now: str

    def line(self) -> str:
        """For a person: what changed, and the choice."""
        runs = "1 finished run was" if self.runs == 1 else f"{self.runs} finished runs were"
        before = ", ".join(text if text == AS_RELEASED else text[:8] for text in self.before)
        now = self.now if self.now == AS_RELEASED else self.now[:8]
        return (
            f"changed code: method={self.method}, {runs} made by other code of it ({before}; now {now}); "
            "give --rerun to train them again, or --keep to take them as they are"
        )


def own_digest(method: str) -> str | None:
    """The digest of a method that is not as released; None for one that is."""
    digest = digest_of(method)
    return None if released().get(method) == digest else digest


def facts(run: RunConfig) -> dict[str, Any]:
    """What the ledger notes of the code of a run's method."""
    about = {"method_version": methods.version(run.method, run.options)}
    return about | {"method_code": own_digest(run.method) or AS_RELEASED}


def digest_of(method: str, of_release: bool | None = None) -> str:
    """16 hex digits over the method's module, its options and what they import of the user's, at any depth.

    Of the user's are modules of no installed package, and those of cse_train that no released method reaches.
    `of_release`: whether the method is a released one, by default as `released` says.
    """
    shipped = method in released() if of_release is None else of_release
    before = _digests.get((method, shipped))
    if before is None or any(_state(file) != state for file, state in before[1].items()):
        files = _reached(_modules_of(method), functools.partial(_is_own, shipped))
        total = hashlib.sha256()
        for name, file in sorted(files.items()):
            total.update(f"{name}\0{_read(file)[0]}\0".encode())
        before = total.hexdigest()[:16], {file: _state(file) for file in files.values()}
        _digests[method, shipped] = before
    return before[0]


_digests: dict[tuple[str, bool], tuple[str, dict[Path, tuple[int, int]]]] = {}
"""(method, whether it is released) -> its digest, and the states of the files that it was computed from."""


@functools.cache
def released() -> dict[str, str]:
    """Method -> its digest as released."""
    return dict(json.loads(RELEASED.read_text(encoding="utf8"))) if RELEASED.is_file() else {}


def _modules_of(method: str) -> list[str]:
    return [f"{METHODS}.{method}", f"{METHODS}.options.{method}"]


def _is_own(of_release: bool, module: str) -> bool:
    """Whether a module that a method imports is its own or the user's, and not shared code or a library."""
    top = module.partition(".")[0]
    if top not in OURS:
        return not _installed(top)
    if module.startswith(f"{METHODS}."):
        return module not in CONTRACT
    return not of_release and module not in _of_released_methods()


@functools.cache
def _of_released_methods() -> frozenset[str]:
    """Modules of ours that some released method reaches."""
    roots = [module for method in released() for module in _modules_of(method)]
    return frozenset(_reached([*roots, *CONTRACT], lambda module: module.partition(".")[0] in OURS))


def _reached(roots: list[str], follow: Callable[[str], bool]) -> dict[str, Path]:
    """Module -> file, of the roots and of what they import as far as `follow` says."""
    files: dict[str, Path] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        file = None if name in files else _file_of(name)
        if file is not None:
            files[name] = file
            waiting += [other for other in _imports(name, file) if other not in files and follow(other)]
    return files


def _imports(name: str, file: Path) -> Iterator[str]:
    """Modules that a file may import: of `from a import b` both a and a.b."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for level, module, parts in _read(file)[1]:
        base = ".".join([*package.split(".")[: len(package.split(".")) - level + 1], *filter(None, [module])])
        start = base if level else module
        names = start.split(".")
        yield from (".".join(names[:count]) for count in range(1, len(names) + 1))  # a package's __init__ runs too
        yield from (f"{start}.{part}" for part in parts)


def _file_of(module: str) -> Path | None:
    """The source file of a module, without importing it; None where it is none."""
    top, *rest = module.split(".")
    folder = _folder_of(top)
    if folder is None:
        return None
    base = folder.joinpath(top, *rest)
    return next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)


def _folder_of(top: str) -> Path | None:
    """The folder in which a top-level module or package lies."""
    if top in OURS:
        return Path(next(iter(methods.__path__))).parents[1]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    locations = [*(spec.submodule_search_locations or [])]
    return Path(locations[0]).parent if locations else Path(spec.origin).parent if spec.origin else None


@functools.cache
def _installed(top: str) -> bool:
    """Whether a top-level module belongs to Python or to an installed package, whose versions the ledger has."""
    folder = None if top in sys.stdlib_module_names else _folder_of(top)
    roots = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    return folder is None or any(folder.resolve().is_relative_to(root) for root in roots)


Imported = tuple[int, str, tuple[str, ...]]
"""Dots before the module's name, the name, and what is taken from it."""


def _read(file: Path) -> tuple[str, tuple[Imported, ...]]:
    """The digest of a file's code, and what it imports; read again when the file has changed."""
    return _parsed(file, *_state(file))


def _state(file: Path) -> tuple[int, int]:
    try:
        about = os.stat(file)
    except FileNotFoundError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


@functools.lru_cache(maxsize=512)
def _parsed(file: Path, changed: int, size: int) -> tuple[str, tuple[Imported, ...]]:
    text = file.read_text(encoding="utf8")
    try:
        tree = ast.parse(text)
    except SyntaxError:  # importing it says where
        return hashlib.sha256(text.encode()).hexdigest(), ()
    imported: list[Imported] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return hashlib.sha256(code_alone(text, tree).encode()).hexdigest(), tuple(imported)


def code_alone(text: str, tree: ast.Module) -> str:
    """The lines of a module without comments, docstrings and blank lines; the same under every version of Python."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str):
                    count = (statement.end_lineno or statement.lineno) - statement.lineno + 1
                    lines[statement.lineno - 1 : statement.lineno - 1 + count] = [""] * count
    return "\n".join(line.rstrip() for line in lines if line.strip())


def write() -> None:
    """Note every method's code as released."""
    digests = {name: digest_of(name, of_release=True) for name in methods.names()}
    RELEASED.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    write()
