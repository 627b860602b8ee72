"""Calls a function in a process of its own where code from outside may take part: what that leaves behind is gone."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from cse_train.fields import ConfigError
from cse_train.plugins import registry

P = ParamSpec("P")
T = TypeVar("T")


def call_apart(function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What a function of a module gives; where plug-ins are known it is called in a new process, which knows them too.

    That costs the seconds of an import of torch. Arguments and result are pickled. Mistakes of the user, as all errors
    of ours that are ValueError, come back as ConfigError.
    """
    if not registry.names("method") and not registry.names("suite"):
        return function(*args, **named)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, registry.adopt, (registry.list_given(),)) as pool:
        result, problems = pool.submit(_call, function, args, named).result()
    if problems:
        raise ConfigError(problems)
    return cast(T, result)


def _call(function: Callable[..., Any], args: Any, named: Any) -> tuple[Any, list[str]]:
    try:
        return function(*args, **named), []
    except ValueError as error:
        return None, getattr(error, "problems", None) or [str(error)]
