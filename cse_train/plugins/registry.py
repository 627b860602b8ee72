"""Registry of the user's methods and suites, from folders, files, modules and installed packages.

An installed package offers them as entry points, `cse.methods` and `cse.suites`, of the form `NAME = "package.module"`.
Other sources (`use`) are files, which are read before anything in them runs, and travel to the workers of a sweep
(`cse_train.plugins.snapshot`). Nothing is imported before a run or a space names it, so that a plan of other spaces
needs none of the user's libraries.
"""

import ast
import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import os
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

from cse_train.fields import ConfigError
from cse_train.plugins import source
from cse_train.plugins.options import Options
from cse_train.plugins.source import HOME, OUR_PACKAGES
from cse_train.reading import first_line

Kind = Literal["method", "suite"]
METHOD_CLASS = "Method"
"""Name of the base class of a method; its module also has a `Config` (`cse_train.api`)."""
WANTED_CLASSES = "a class of Method and its Config"
"""Part of messages that says what the file of a method must define."""
SUITE_NAMES = ("NAME", "COLUMNS", "NEEDS", "evaluate")
"""Names that the module of a suite must define."""


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
        return "suite" if "evaluate" in self.names and len(self.names & {*SUITE_NAMES}) > 1 else None

    def missing(self) -> list[str]:
        """Returns the names of the contract that the file does not define."""
        required = ("Config",) if self.has_method else SUITE_NAMES
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


LIBRARY_PATHS = ("site-packages", "dist-packages", os.path.dirname(os.__file__), "<frozen")
"""Parts of the paths of files that the user did not write."""


@contextlib.contextmanager
def importing(subject: str, plugin: object) -> Iterator[None]:
    """Turns any error inside the block into ConfigError: what failed, where in the user's code, and why."""
    try:
        yield
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        is_own = isinstance(error, ImportError) and (error.name or "").partition(".")[0] in OUR_PACKAGES
        advice = "take it from cse_train.api, which is what stays" if is_own else "correct it"
        line = f"plug-in fails at import: {subject} at {place(error) or plugin} ({reason}); {advice}"
        raise ConfigError([line]) from error


def place(error: BaseException) -> str | None:
    """Returns `FILE:LINE` of the last frame in the user's own code; None if the traceback has no such frame."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    own_folders = tuple(str(HOME / package) + os.sep for package in OUR_PACKAGES)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    user_frames = [
        f"{file}:{line}"
        for file, line in frames
        if not file.startswith(own_folders) and not any(part in file for part in LIBRARY_PATHS)
    ]
    return user_frames[-1] if user_frames else None


OPTIONS = "_options"
"""Ending of the name of the module that holds a method's `Config` where that needs no torch."""
ENTRY_POINTS: dict[Kind, str] = {"method": "cse.methods", "suite": "cse.suites"}
SHIPPED: dict[Kind, Path] = {
    "method": Path(__file__).parents[1] / "methods",
    "suite": Path(__file__).parents[1] / "evaluate" / "suites",
}
OTHER_MODULES = ("__init__", "base", "registry")
"""Modules in the folders of shipped methods and suites that are neither."""


@dataclass(frozen=True)
class Plugin:
    """Method or suite, shipped or the user's, and its source files."""

    kind: Kind
    name: str
    """Name by which spaces refer to it."""
    module: str
    """Name of the module that is imported."""
    options: str | None = None
    """Module of a method's `Config` if that is another one."""
    file: Path | None = None
    """Source file of the module; None for an entry point."""
    folder: Path | None = None
    """Folder of the top-level module; None for an entry point."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Names of the modules that make up the plug-in, without the modules that they import."""
        return (self.module, self.options) if self.options else (self.module,)

    @property
    def is_ours(self) -> bool:
        """True if the plug-in lies in a package of cse-search."""
        return self.module.partition(".")[0] in source.OUR_PACKAGES

    @property
    def is_isolated(self) -> bool:
        """True if the plug-in's code runs in processes of its own, and so leaves nothing behind in a rank's."""
        return False

    def files(self) -> dict[str, Path]:
        """Returns module -> file, for the plug-in and all that it imports of the user's own, at any depth."""
        top = self.module.partition(".")[0]

        def is_users(module: str) -> bool:
            first = module.partition(".")[0]
            return first == top or (first not in source.OUR_PACKAGES and not source.is_installed(first))

        return source.follow_imports(self.roots, is_users)

    def move(self, folder: Path, file: Path) -> "Plugin":
        """Returns the plug-in with the paths of a copy of its files."""
        return dataclasses.replace(self, file=file, folder=folder)

    def declare_options(self) -> type[Options] | None:
        """Returns the settings class of a method that declares it without code; None if its module has a `Config`."""
        return None

    def __str__(self) -> str:
        return self.module if self.is_ours else str(self.file or f"entry point {self.module}")


_registered: dict[tuple[Kind, str], Plugin] = {}
"""(kind, name) -> plug-in, in the order in which they were registered."""
_loaded: dict[str, str] = {}
"""Module of a plug-in -> the digest of its code when it was imported."""


def names(kind: Kind) -> tuple[str, ...]:
    """Returns the names of all plug-ins of a kind, sorted; shipped ones are not among them."""
    return tuple(sorted({name for given, name in _registered if given == kind} | set(_entry_points(kind))))


def list_given() -> tuple[Plugin, ...]:
    """Returns the plug-ins that `use` or `adopt` registered, without entry points."""
    return tuple(_registered.values())


def get(kind: Kind, name: str) -> Plugin | None:
    """Returns the user's plug-in of this name, or None.

    Raises ConfigError if two packages offer the name, or it is also the name of a shipped one.
    """
    plugin = _registered.get((kind, name))
    if plugin is not None:
        return plugin
    offered = _entry_points(kind).get(name, ())
    if not offered:
        return None
    if name in list_shipped(kind):
        line = f"name of ours: {kind}={name} is offered by {', '.join(offered)} too"
        raise ConfigError([f"{line}; rename that entry point, or remove its package"])
    if len(offered) > 1:
        line = f"two plug-ins of one name: {kind}={name} is offered by {', '.join(offered)}"
        raise ConfigError([f"{line}; rename one of these entry points"])
    module, options = offered[0], f"{offered[0]}{OPTIONS}"
    return Plugin(kind, name, module, options if kind == "method" and source.file_of(options) else None)


def require(kind: Kind, name: str) -> Plugin:
    """Returns the shipped or the user's plug-in of this name; raises KeyError for an unknown name."""
    plugin = get(kind, name) or list_shipped(kind).get(name)
    if plugin is None:
        raise KeyError(name)
    return plugin


def use(sources: Iterable[str | Path], base: Path | None = None) -> tuple[Plugin, ...]:
    """Registers the plug-ins of folders, files and modules, so that spaces and runs can name them.

    Relative paths begin at `base`. Raises ConfigError with a line for each source without a plug-in, each name that is
    taken, and each missing name of the contract. A module that was edited since its import is imported anew.
    """
    plugins: list[Plugin] = []
    problems: list[str] = []
    for text in sources:
        try:
            plugins += _plugins_of(str(text), base or Path.cwd())
        except ConfigError as error:
            problems += error.problems
    for plugin in plugins:
        problems += _name_problems(plugin, plugins)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    adopt(plugins)
    return tuple(plugins)


def find_unused(sources: Iterable[str | Path], base: Path) -> list[str]:
    """Returns the sources with plug-ins that are not registered; none of their code runs."""
    files = {plugin.file for plugin in list_given()}
    return [str(text) for text in sources if not {p.file for p in _plugins_of(str(text), base)} <= files]


def adopt(plugins: Sequence[Plugin]) -> None:
    """Registers plug-ins whose files were checked before."""
    folders = dict.fromkeys(str(plugin.folder) for plugin in plugins if plugin.folder is not None)
    added = [folder for folder in folders if folder not in sys.path]
    previous = dict(_registered)
    sys.path += added
    _registered.update({(plugin.kind, plugin.name): plugin for plugin in plugins})
    _look_again()
    problems = [line for plugin in plugins for line in _module_problems(plugin)]
    if problems:  # all or none: a plug-in that cannot be used takes the others of this call back with it
        sys.path[:] = [folder for folder in sys.path if folder not in added]
        _registered.clear()
        _registered.update(previous)
        raise ConfigError(list(dict.fromkeys(problems)))
    for plugin in plugins:
        if _loaded.get(plugin.module, digest(plugin)) != digest(plugin):
            _unload(plugin)


def _look_again() -> None:
    """Clears the caches of module lookups, after folders have come to or gone from Python's path."""
    importlib.invalidate_caches()
    source.is_installed.cache_clear()


def forget() -> None:
    """Takes back every `use`: for a process that goes on with other plug-ins, such as a test's."""
    for plugin in list_given():
        _unload(plugin)
        if str(plugin.folder) in sys.path:
            sys.path.remove(str(plugin.folder))
    _registered.clear()
    _look_again()


def load(plugin: Plugin, module: str | None = None) -> ModuleType:
    """Imports the plug-in's module, or one of its `roots`; ConfigError names the place where importing fails."""
    name = module or plugin.module
    if name in sys.modules:
        return sys.modules[name]
    if plugin.is_ours:
        return importlib.import_module(name)
    _loaded.setdefault(plugin.module, digest(plugin))
    with importing(f"{plugin.kind}={plugin.name}", plugin):
        return importlib.import_module(name)


def find_raiser(error: BaseException) -> str | None:
    """Returns `FILE:LINE` of the user's code where an error began that came through a plug-in; else None."""
    tops = {module.partition(".")[0] for module in _loaded}
    names = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__))
    return place(error) if any(name.partition(".")[0] in tops for name in names) else None


def digest(plugin: Plugin) -> str:
    """Returns 16 hex digits over the user's code of a plug-in, imports included."""
    return source.digest(plugin.files())


@functools.cache
def list_shipped(kind: Kind) -> Mapping[str, Plugin]:
    """Returns name -> shipped method or suite, from the files of their folder."""
    folder = SHIPPED[kind]
    package = ".".join(folder.relative_to(source.HOME).parts)
    stems = sorted(file.stem for file in folder.glob("*.py") if file.stem not in OTHER_MODULES)
    separate = {file.stem for file in (folder / "options").glob("*.py")}
    options = {name: f"{package}.options.{name}" for name in stems if name in separate}
    return {name: Plugin(kind, name, f"{package}.{name}", options.get(name)) for name in stems}


def _plugins_of(text: str, base: Path) -> list[Plugin]:
    path = (base / Path(text).expanduser()).absolute()
    if path.is_dir():
        return _read_folder(path)
    if path.is_file():
        if path.suffix != ".py":
            raise ConfigError([f"no plug-in: plugins={text} is no .py file; give one, a folder or a module"])
        return [_read_file(path, scan(path))]
    if path.suffix == ".py" or len(Path(text).parts) > 1:
        raise ConfigError([f"no such path: plugins={text}; give a folder, a .py file or a module"])
    file = source.file_of(text)
    if file is None:
        raise ConfigError([f"no such plug-in: plugins={text}; give a folder, a .py file or a module that Python finds"])
    return _read_folder(file.parent) if file.name == "__init__.py" else [_read_file(file, scan(file))]


def _read_folder(folder: Path) -> list[Plugin]:
    scanned = {file: scan(file) for file in sorted(folder.glob("*.py")) if not file.name.startswith(("_", "."))}
    plugins = [_read_file(file, definitions) for file, definitions in scanned.items() if definitions.kind()]
    if not plugins:
        line = f"no plug-in: plugins={folder} has no method and no suite"
        raise ConfigError([f"{line}; a method is a .py file with {WANTED_CLASSES}"])
    return plugins


def _read_file(file: Path, definitions: Definitions) -> Plugin:
    kind = definitions.kind()
    if kind is None and not definitions.names & {*SUITE_NAMES}:
        raise ConfigError([f"no plug-in: {file} defines no method and no suite; a method has {WANTED_CLASSES}"])
    kind = kind or "suite"
    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    module, options_file = ".".join(parts), file.with_name(f"{file.stem}{OPTIONS}.py")
    options = f"{module}{OPTIONS}" if kind == "method" and options_file.is_file() else None
    missing = definitions.missing()
    missing = [name for name in missing if name not in scan(options_file).names] if options else missing
    name = file.stem if kind == "method" else definitions.name or file.stem
    if missing:
        line = f"missing name: {kind}={name} has no {', '.join(missing)} in {file}"
        raise ConfigError([f"{line}; define {'it' if len(missing) == 1 else 'them'}, see docs/your_method.md"])
    return Plugin(kind, name, module, options, file, root)


def _name_problems(plugin: Plugin, candidates: Sequence[Plugin]) -> list[str]:
    """Returns lines for a plug-in's name that a shipped one, or another plug-in, has."""
    if plugin.name in list_shipped(plugin.kind):
        return [f"name of ours: {plugin.kind}={plugin.name} in {plugin}; rename yours"]
    key = (plugin.kind, plugin.name)
    places = {str(other) for other in (*list_given(), *candidates) if (other.kind, other.name) == key}
    offered = _entry_points(plugin.kind).get(plugin.name, ())
    places |= {f"entry point {module}" for module in offered if module != plugin.module}
    if len(places) > 1:
        line = f"two plug-ins of one name: {plugin.kind}={plugin.name} in {' and '.join(sorted(places))}"
        return [f"{line}; rename one, or give one of them"]
    return []


def _module_problems(plugin: Plugin) -> list[str]:
    """Returns a line if Python finds another module under the plug-in's name, or a module of it in two folders."""
    located = source.file_of(plugin.module)
    if plugin.folder and plugin.file and (located is None or located.resolve() != plugin.file.resolve()):
        line = (
            f"name of another module: {plugin.kind}={plugin.name} in {plugin}, `import {plugin.module}` gives {located}"
        )
        return [f"{line}; rename the file"]
    folders = {other.folder for other in list_given() if other.folder is not None}
    tops = {module.partition(".")[0] for module in plugin.files()}
    places = [(folder / f"{top}.py", folder / top / "__init__.py", top) for folder in folders for top in sorted(tops)]
    counts = Counter(top for file, package, top in places if file.is_file() or package.is_file())
    duplicates = [top for top in sorted(tops) if counts[top] > 1]
    return [f"two modules of one name: {top} in several folders of plugins; rename one" for top in duplicates]


def _unload(plugin: Plugin) -> None:
    for module in plugin.files():
        sys.modules.pop(module, None)
    _loaded.pop(plugin.module, None)


@functools.cache
def _entry_points(kind: Kind) -> dict[str, tuple[str, ...]]:
    """Returns name -> the modules that installed packages offer under it."""
    offered: dict[str, tuple[str, ...]] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS[kind]):
        offered[point.name] = tuple(dict.fromkeys((*offered.get(point.name, ()), point.module)))
    return offered
