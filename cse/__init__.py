"""The face: what a person types or imports, put together from the other four packages.

In a notebook or a script: `cse.plan`, `run`, `table`, `compare`, `gate` and others are the commands, `cse.load_model`
opens a model, and `cse.frames` has the ledger as pandas frames. They are imported when they are first asked for. In a
training script of your own `cse.report` tells a sweep its score, and does nothing elsewhere.
"""

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = [
    "TrialStopped",
    "ablate",
    "best",
    "best_folder",
    "explain",
    "export",
    "frames",
    "gate",
    "load_model",
    "ls",
    "plan",
    "report",
    "reproduce",
    "run",
    "status",
    "table",
    "trials",
    "write_report",
]
COMMANDS = {
    **dict.fromkeys(("load_model", "plan", "reproduce", "run", "table"), "cse.cli.python.notebook"),
    **dict.fromkeys(
        ("ablate", "best", "explain", "export", "ls", "status", "trials", "write_report"), "cse.cli.python.answers"
    ),
    **dict.fromkeys(("compare", "gate"), "cse.compare.python"),
}
"""Function -> the module that has it. (`cse.report` is for training scripts.)"""
FRAMES = ("curves", "runs", "scores")
TRIAL = ("TrialStopped", "best_folder", "report")
PACKAGES = ("analysis", "cluster", "cse_train", "search_spaces")
"""Our other top-level packages; a person's own folder may have one of these names."""


def __dir__() -> list[str]:
    return sorted([*globals(), *COMMANDS, *TRIAL, "frames"])


def __getattr__(name: str) -> Any:
    """A command as a function, `frames`: `frames.runs(ledger, sweep)`, `curves` and `scores`, or the version."""
    if name == "__version__":
        try:
            value: Any = importlib.metadata.version("cse-search")
        except importlib.metadata.PackageNotFoundError:  # a checkout on PYTHONPATH that was never installed
            value = "unknown"
    elif name in COMMANDS:
        value = _guard(COMMANDS[name], name)
    elif name in TRIAL:
        with _our_packages():
            value = getattr(importlib.import_module("cse_train.training.trainer.trial"), name)
    elif name == "frames":
        value = SimpleNamespace(**{part: _guard("analysis.frames", part) for part in FRAMES})
    else:
        raise AttributeError(f"module 'cse' has no attribute '{name}'")
    globals()[name] = value
    return value


def _guard(module: str, name: str) -> Any:
    """A function of ours that finds our packages also where a person's own have their names."""
    with _our_packages():
        function = getattr(importlib.import_module(module), name)

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        with _our_packages():
            return function(*given, **options)

    return called


_ours: dict[str, ModuleType] = {}
"""Our modules of packages that a person has too, while they stand aside."""


@contextlib.contextmanager
def _our_packages() -> Iterator[None]:
    """In here `import analysis` gives ours; behind it a person's own package is again what it was."""
    home = str(Path(__file__).resolve().parent.parent)
    foreign = [name for name in PACKAGES if _is_foreign(name, home)]
    theirs = _take_out(foreign)
    sys.modules.update(_ours)
    if foreign:
        sys.path.insert(0, home)
    try:
        yield
    finally:
        if foreign:
            sys.path.remove(home)
            _ours.update(_take_out(foreign))
            sys.modules.update(theirs)
            importlib.invalidate_caches()


def _take_out(packages: list[str]) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _is_foreign(name: str, home: str) -> bool:
    """Whether `import name` would give, or has given, a package that is not ours."""
    module = sys.modules.get(name)
    if module is not None:
        places = [*getattr(module, "__path__", [getattr(module, "__file__", None) or ""])]
    else:
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    return not any(str(Path(place).resolve()).startswith(str(Path(home, name))) for place in places)


class _Package(ModuleType):
    """`cse.compare` is the command, although a folder has its name, which an import would put there."""

    @property
    def compare(self) -> Any:
        return _guard(COMMANDS["compare"], "compare")

    @compare.setter
    def compare(self, folder: ModuleType) -> None:
        """Nothing: imports find the folder by its whole name."""


sys.modules[__name__].__class__ = _Package
