"""Calls a function in a process of its own if a user's plug-ins take part, so that they leave nothing behind."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from cse_train.fields import ConfigError
from cse_train.plugins import registry

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
