"""The project's five packages on disk: their folders, the digest of their code, and the provenance of a result."""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

OUR_PACKAGES = ("analysis", "cluster", "cse", "cse_train", "search_spaces")
_CODE = (".py", ".yaml", ".json", ".txt")
_VERSIONED = ("torch", "ray", "transformers", "tokenizers", "numpy", "optuna", "sqlalchemy", "cse-search")


def package_folder(name: str) -> Path:
    """Returns the folder that `import name` would use in this process; raises ValueError where there is none."""
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or []) if spec else []
    if not locations:
        raise ValueError(f"package not found: name={name}; install cse-search in this Python")
    return Path(locations[0]).resolve()


def package_parents() -> list[Path]:
    return list(dict.fromkeys(package_folder(name).parent for name in OUR_PACKAGES))


@cache
def code_digest() -> str:
    """Returns 16 hex digits of a sha256 over path and bytes of every code and data file of the five packages."""
    total = hashlib.sha256()
    for name in OUR_PACKAGES:
        folder = package_folder(name)
        for path in sorted(p for p in folder.rglob("*") if p.suffix in _CODE and p.is_file()):
            total.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def digest_problem(expected: str) -> str | None:
    """Returns one line where this process would run other code than the driver; None where the digests agree."""
    digest = code_digest()
    if digest == expected:
        return None
    folder = package_folder("cluster").parent
    return (
        f"different code: digest={digest} in {folder} on {platform.node()}, the driver has {expected}; "
        "install the same version of cse-search on every node"
    )


def other_code(codes: Mapping[str, int]) -> str | None:
    """Returns one line where a ledger has runs of other code; `codes`: code digest -> number of runs."""
    others = {code: runs for code, runs in codes.items() if code != code_digest()}
    if not others:
        return None
    listed = ", ".join(f"{runs} of {code}" for code, runs in sorted(others.items()))
    return (
        f"runs of other code in this ledger: {listed}, this is {code_digest()}; they are reused and continued as "
        "long as their methods' VERSION is the same: for a table of one code alone give a new --ledger and --storage"
    )


@cache
def provenance() -> dict[str, object]:
    """Returns commit, code digest, package versions, host and CPUs of this process, as data for the ledger."""
    return {
        "commit": _commit(),
        "code_digest": code_digest(),
        "python": platform.python_version(),
        "versions": {name: version for name in _VERSIONED if (version := find_version(name))},
        "host": platform.node(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


@cache
def _commit() -> str | None:
    """Returns the packages' git commit, with `+` after it where files changed; None outside a checkout."""
    folder = package_folder("cluster").parent
    if not (folder / ".git").exists():
        return None
    try:
        head, changed = (
            subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10, check=True)
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", *OUR_PACKAGES])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def find_version(name: str) -> str:
    """Returns the version of an installed package; empty where the package is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
