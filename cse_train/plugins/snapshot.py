"""Takes plug-ins into other processes: copies of their files for a sweep's workers, and calls in a new process."""

import multiprocessing
import platform
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from cse_train.fields import ConfigError
from cse_train.plugins import registry, source
from cse_train.plugins.registry import Kind, Plugin

PLUGINS_FOLDER = "plugins"

Code = Mapping[tuple[Kind, str], str]
"""(kind, name) of plug-ins -> the digests of their code."""


def code_of(method: str, suites: Iterable[str]) -> dict[tuple[Kind, str], str]:
    """Returns the digests of the code of a run's method and suites that are plug-ins."""
    keys: list[tuple[Kind, str]] = [("method", method), *(("suite", suite) for suite in suites)]
    plugins = {key: registry.get(*key) for key in keys}
    return {key: registry.digest(plugin) for key, plugin in plugins.items() if plugin is not None}


def leaves_traces(code: Code) -> bool:
    """Returns True if some plug-in's code runs in a rank's own process, and not in one that ends with the run."""
    return not all((plugin := registry.get(*key)) and plugin.is_isolated for key in code)


def snapshot(storage: Path) -> tuple[Plugin, ...]:
    """Copies the registered plug-ins under `storage`, into folders named by their content's digest; returns the copies.

    Later edits change nothing in the sweep that has begun. Programs get a folder each: two may import modules of one
    name.
    """
    plugins = registry.list_given()
    groups = [[each for each in plugins if not each.is_isolated], *([each] for each in plugins if each.is_isolated)]
    return tuple(plugin for group in groups if group for plugin in _copy(storage, group))


def _copy(storage: Path, plugins: Sequence[Plugin]) -> list[Plugin]:
    files = {module: file for plugin in plugins for module, file in plugin.files().items()}
    folder = storage / PLUGINS_FOLDER / source.digest(files)
    if not folder.is_dir():
        aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        for module, file in files.items():
            place = aside / path_of(module, file)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place)
        try:
            aside.rename(folder)
        except OSError:  # another driver was faster
            shutil.rmtree(aside)
            if not folder.is_dir():
                raise
    return [plugin.move(folder, folder / path_of(plugin.module, files[plugin.module])) for plugin in plugins]


def code_problem(expected: Code) -> str | None:
    """Returns a message if this process would run other code of a plug-in than the driver; else None."""
    for (kind, name), digest in expected.items():
        plugin = registry.get(kind, name)
        local = registry.digest(plugin) if plugin else None
        if local != digest:
            node = platform.node()
            state = f"digest={local} on {node}, the driver has {digest}" if local else f"none on {node}"
            return f"different plug-in: {kind}={name} {state}; install its package in the same version on every node"
    return None


def path_of(module: str, file: Path) -> Path:
    """Returns the path of a module's file relative to the folder of its top-level package."""
    parts = Path(*module.split("."))
    return parts / file.name if file.name == "__init__.py" else parts.with_suffix(".py")


P = ParamSpec("P")
T = TypeVar("T")


def call_apart(function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Calls a module's function; if plug-ins are registered, in a new process with the same ones. Returns its result.

    The process costs the seconds of an import of torch. Arguments and result are pickled. Any ValueError, which all
    mistakes of the user are, comes back as ConfigError.
    """
    if not registry.names("method") and not registry.names("suite"):
        return function(*args, **options)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, registry.adopt, (registry.list_given(),)) as pool:
        result, problems = pool.submit(_call, function, args, options).result()
    if problems:
        raise ConfigError(problems)
    return cast(T, result)


def _call(function: Callable[..., Any], args: Any, options: Any) -> tuple[Any, list[str]]:
    try:
        return function(*args, **options), []
    except ValueError as error:
        return None, getattr(error, "problems", None) or [str(error)]
