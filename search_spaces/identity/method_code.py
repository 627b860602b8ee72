"""Digests of methods' code, so that results of edited code are not taken for results from before the edit.

A released method follows its VERSION, and `released_methods.json` has the digest of its code as released. A method that
is not in the file, or whose code is another one, has its digest among its runs' inputs: an edit gives its runs new
signatures. Comments, docstrings and blank lines do not count. `python -m search_spaces.identity.method_code` writes the
file.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from cse_train import methods
from cse_train.config import RunConfig, note_first_fields
from cse_train.plugins import registry, source
from cse_train.plugins.source import OUR_PACKAGES, follow_imports, is_installed

RELEASED = Path(__file__).with_name("released_methods.json")
AS_RELEASED = "released"
METHODS = "cse_train.methods"
CONTRACT_MODULES = (METHODS, f"{METHODS}.base", f"{METHODS}.options")
"""Modules that all methods share, and that no method's digest includes."""


@dataclass(frozen=True)
class ChangedCode:
    """Number of finished runs of one method that today's code would train again, with the digests of both codes."""

    method: str
    runs: int
    before: tuple[str, ...]
    """Digests of the code that made the runs; `released` for the code as released."""
    now: str

    def line(self) -> str:
        """Returns what changed and the choice between --rerun and --keep, as one line for the user."""
        runs = "1 finished run was" if self.runs == 1 else f"{self.runs} finished runs were"
        before = ", ".join(text if text == AS_RELEASED else text[:8] for text in self.before)
        now = self.now if self.now == AS_RELEASED else self.now[:8]
        return (
            f"changed code: method={self.method}, {runs} made by other code of it ({before}; now {now}); "
            "give --rerun to train them again, or --keep to take them as they are"
        )


def own_digest(method: str) -> str | None:
    """Returns the digest of a method whose code differs from its release; None for a method as released."""
    digest = digest_of(method)
    return None if read_released().get(method) == digest else digest


def facts(run: RunConfig) -> dict[str, object]:
    """Returns what the ledger records of a run's method: version, digest, and the better direction of an own score."""
    about: dict[str, object] = {"method_version": run.options.version()}
    if run.options.LOOP:
        about["better"] = "lower" if run.options.TURNED else "higher"
    return about | {"method_code": own_digest(run.method) or AS_RELEASED}


def digest_of(method: str, of_release: bool | None = None) -> str:
    """Returns 16 hex digits over a method's module, its options and the user's own code that it imports, at any depth.

    Own code is every module of no installed package, and every module of cse_train that no released method reaches; for
    a plug-in, all modules outside this project. `of_release`: whether the method counts as released, by default as
    `read_released` says.
    """
    plugin = registry.get("method", method)
    if plugin is not None:
        return registry.digest(plugin)
    shipped = method in read_released() if of_release is None else of_release
    before = _digests.get((method, shipped))
    if before is None or any(source.state(file) != state for file, state in before[1].items()):
        files = follow_imports(_modules_of(method), functools.partial(_is_own, shipped))
        before = source.digest(files), {file: source.state(file) for file in files.values()}
        _digests[method, shipped] = before
    return before[0]


_digests: dict[tuple[str, bool], tuple[str, dict[Path, tuple[int, int]]]] = {}
"""(method, whether it counts as released) -> (digest, states of the files from which it was computed)."""


@functools.cache
def read_released() -> dict[str, str]:
    """Returns method -> digest of its code as released."""
    return dict(json.loads(RELEASED.read_text(encoding="utf8"))) if RELEASED.is_file() else {}


def _modules_of(method: str) -> list[str]:
    return [f"{METHODS}.{method}", f"{METHODS}.options.{method}"]


def _is_own(of_release: bool, module: str) -> bool:
    """Tells whether an imported module is the method's own or the user's, and not shared code or a library."""
    top = module.partition(".")[0]
    if top not in OUR_PACKAGES:
        return not is_installed(top)
    if module.startswith(f"{METHODS}."):
        return module not in CONTRACT_MODULES
    return not of_release and module not in _list_released_modules()


@functools.cache
def _list_released_modules() -> frozenset[str]:
    """Returns the modules of this project that some released method imports."""
    roots = [module for method in read_released() for module in _modules_of(method)]
    return frozenset(
        follow_imports([*roots, *CONTRACT_MODULES], lambda module: module.partition(".")[0] in OUR_PACKAGES)
    )


def write() -> None:
    """Writes every method's code as released, and the fields of a new method."""
    digests = {name: digest_of(name, of_release=True) for name in methods.list_methods()}
    RELEASED.write_text(json.dumps(digests, indent=1) + "\n", encoding="utf8")
    note_first_fields()


if __name__ == "__main__":
    write()
