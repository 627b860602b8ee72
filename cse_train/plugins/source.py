"""Modules as source files: finds them, follows their imports and hashes their code, without importing them."""

import ast
import functools
import hashlib
import importlib.util
import io
import os
import re
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

OUR_PACKAGES = ("analysis", "cluster", "cse", "cse_train", "search_spaces")
HOME = Path(__file__).absolute().parents[2]
"""Folder that contains the packages of cse-search."""
LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
"""Names of folders of installed packages, also in other environments (.pth file, PYTHONPATH, a venv's option)."""


def follow_imports(
    roots: Iterable[str], follow: Callable[[str], bool], find: Callable[[str], Path | None] | None = None
) -> dict[str, Path]:
    """Returns module -> file, for the roots and all that they import as far as `follow(module)` is True.

    `find` returns a module's file, and is `file_of` by default.
    """
    find = find or file_of
    files: dict[str, Path] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        file = None if name in files else find(name)
        if file is not None:
            files[name] = file
            waiting += [imported for imported in list_imports(name, file) if imported not in files and follow(imported)]
    return files


def digest(files: Mapping[str, Path]) -> str:
    """Returns 16 hex digits over names and code of modules, without comments, docstrings and blank lines."""
    total = hashlib.sha256()
    for name, file in sorted(files.items()):
        total.update(f"{name}\0{_read(file)[0]}\0".encode())
    return total.hexdigest()[:16]


def state(file: Path) -> tuple[int, int]:
    """Returns time of change and size of a file, by which a changed file is recognised; zeros for one that is gone."""
    try:
        about = os.stat(file)
    except FileNotFoundError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


def file_of(module: str) -> Path | None:
    """Returns the source file of a module, without importing it; None if it has none."""
    top, *rest = module.split(".")
    bases = [place.joinpath(*rest) for place in _find_places(top)]
    files = (file for base in bases for file in (base / "__init__.py", base.with_suffix(".py")))
    return next((file for file in files if file.is_file()), None)


def _find_places(top: str) -> list[Path]:
    """Returns the folders of a top-level package, or a module's file without its ending.

    Of a namespace package only the user's folders are returned, unless all are installed.
    """
    if top in OUR_PACKAGES:
        return [HOME / top]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    origin = [Path(spec.origin).with_name(top)] if spec.origin else []
    places = [*map(Path, spec.submodule_search_locations or [])] or origin
    return [place for place in places if not _is_library(place)] or places


@functools.cache
def is_installed(top: str) -> bool:
    """Returns True if a top-level module belongs to Python or to an installed package.

    The ledger records the versions of installed packages, so that their code is not hashed.
    """
    return top in sys.stdlib_module_names or all(map(_is_library, _find_places(top)))


def _is_library(place: Path) -> bool:
    folder = place.parent.resolve()
    roots = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib", "platstdlib")]
    if LIBRARY_FOLDERS & {*folder.parts} or any(folder.is_relative_to(root) for root in roots):
        return True
    return place.name in list_distributed(folder)


def list_distributed(folder: Path) -> set[str]:
    """Returns the top-level modules that installed packages have put into a folder, as `pip install --target` does.

    Such a package lists its files in a .dist-info in the same folder; an editable one has none there.
    """
    records = (record.read_text(encoding="utf8").splitlines() for record in folder.glob("*.dist-info/RECORD"))
    return {re.split("[/.]", line)[0] for lines in records for line in lines}


def list_imports(name: str, file: Path) -> Iterator[str]:
    """Yields the modules that a file may import: for `from a import b` both a and a.b."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for level, module, parts in _read(file)[1]:
        base = ".".join([*package.split(".")[: len(package.split(".")) - level + 1], *filter(None, [module])])
        start = base if level else module
        names = start.split(".")
        yield from (".".join(names[:count]) for count in range(1, len(names) + 1))  # a package's __init__ runs too
        yield from (f"{start}.{part}" for part in parts)


Imported = tuple[int, str, tuple[str, ...]]
"""One import: number of leading dots, the module's name, and the names taken from it."""


def _read(file: Path) -> tuple[str, tuple[Imported, ...]]:
    """Returns the digest of a file's code, and its imports; cached until the file changes."""
    return _parse(file, *state(file))


@functools.lru_cache(maxsize=512)
def _parse(file: Path, changed: int, size: int) -> tuple[str, tuple[Imported, ...]]:
    data = file.read_bytes()
    try:
        text = data.decode("utf8")
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # importing it says where
        return hashlib.sha256(data).hexdigest(), ()
    imported: list[Imported] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
    return hashlib.sha256(code_alone(text, tree).encode()).hexdigest(), tuple(imported)


def code_alone(text: str, tree: ast.Module) -> str:
    """Returns a module's lines without comments, docstrings and blank lines: equal under every version of Python."""
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
