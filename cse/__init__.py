"""The `cse` package: commands as Python functions, models, ledger frames, and the reporting of training scripts.

In a notebook or a script, `cse.plan`, `run`, `table`, `compare`, `gate` and others are the commands, `cse.load_model`
opens a model, and `cse.frames` reads the ledger as pandas frames. Each is imported when it is first used. In a training
script of your own, `cse.report` reports a score to the sweep that started the script, and does nothing elsewhere.
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
    **dict.fromkeys(
        "load_model plan reproduce run table ablate best explain export ls status trials write_report".split(),
        "cse.cli.python",
    ),
    **dict.fromkeys(("compare", "gate"), "cse.compare.python"),
}
"""Name of a command function -> the module that defines it. `cse.report` is no command: it is for training scripts."""
FRAMES = ("curves", "runs", "scores")
TRIAL = ("TrialStopped", "best_folder", "report")
PACKAGES = ("analysis", "cluster", "cse_train", "search_spaces")
"""Top-level packages of cse-search besides `cse`; a user's own folder on the path may have one of these names."""


def __dir__() -> list[str]:
    return sorted([*globals(), *COMMANDS, *TRIAL, "frames"])


def __getattr__(name: str) -> Any:
    """Imports a public name of `cse` when it is first read: a command, `frames`, `report`, `__version__` and others.

    `frames` has `runs(ledger, sweep)`, `curves` and `scores`.
    """
    if name == "__version__":
        try:
            value: Any = importlib.metadata.version("cse-search")
        except importlib.metadata.PackageNotFoundError:  # a checkout on PYTHONPATH that was never installed
            value = "unknown"
    elif name in COMMANDS:
        value = _guard(COMMANDS[name], name)
    elif name in TRIAL:
        with _own_packages():
            value = getattr(importlib.import_module("cse_train.training.trial"), name)
    elif name == "frames":
        value = SimpleNamespace(**{part: _guard("analysis.frames", part) for part in FRAMES})
    else:
        raise AttributeError(f"module 'cse' has no attribute '{name}'")
    globals()[name] = value
    return value


def _guard(module: str, name: str) -> Any:
    """Returns a function of cse-search that imports from its own packages, even if the user's folders have the same
    names."""
    with _own_packages():
        function = getattr(importlib.import_module(module), name)

    @functools.wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        with _own_packages():
            return function(*arguments, **options)

    return wrapper


_own_modules: dict[str, ModuleType] = {}
"""Name -> module of cse-search, for packages whose names the user's code also uses; kept between calls."""


@contextlib.contextmanager
def _own_packages() -> Iterator[None]:
    """Makes `import analysis` give cse-search's own package within the block; afterwards the user's package is back."""
    home = str(Path(__file__).resolve().parent.parent)
    foreign = [name for name in PACKAGES if _is_foreign(name, home)]
    user_modules = _remove_modules(foreign)
    sys.modules.update(_own_modules)
    if foreign:
        sys.path.insert(0, home)
    try:
        yield
    finally:
        if foreign:
            sys.path.remove(home)
            _own_modules.update(_remove_modules(foreign))
            sys.modules.update(user_modules)
            importlib.invalidate_caches()


def _remove_modules(packages: list[str]) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}


def _is_foreign(name: str, home: str) -> bool:
    """Returns True if `import name` has given, or would give, a package from outside cse-search's `home` folder."""
    module = sys.modules.get(name)
    if module is not None:
        places = [*getattr(module, "__path__", [getattr(module, "__file__", None) or ""])]
    else:
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else [*(spec.submodule_search_locations or [spec.origin or ""])]
    return not any(str(Path(place).resolve()).startswith(str(Path(home, name))) for place in places)


class _Package(ModuleType):
    """Type of the `cse` module: keeps `cse.compare` the command, although importing the folder `cse/compare` would
    replace it."""

    @property
    def compare(self) -> Any:
        return _guard(COMMANDS["compare"], "compare")

    @compare.setter
    def compare(self, folder: ModuleType) -> None:
        """Ignores the assignment that `import cse.compare` makes; imports find the folder by its full name."""


sys.modules[__name__].__class__ = _Package
