"""What a part runs on: Python, torch, the card and the packages, printed as JSON. Imports torch, so it is a process."""

import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from typing import Any

PACKAGES = (
    *("transformers", "sentence_transformers", "accelerate", "datasets", "tokenizers", "numpy", "triton"),
    *("pytest", "xdist", "pytest_timeout", "ray", "optuna", "pydantic", "sqlalchemy"),
)
"""Packages whose presence or version decides what can be run."""


def facts() -> dict[str, Any]:
    """Returns facts about this machine; `card` is None where torch sees no GPU, `torch` where it is absent."""
    packages = {name: version(name) for name in PACKAGES}
    common = {"python": sys.version.split()[0], "processor": platform.machine(), "cores": os.cpu_count()}
    if version("torch") is None:
        return {"card": None, "torch": None, **common, "packages": packages}
    import torch

    card = memory = None
    if torch.cuda.is_available():
        card, memory = torch.cuda.get_device_name(), torch.cuda.get_device_properties(0).total_memory
    return {"card": card, "memory": memory, "torch": torch.__version__, **common, "packages": packages}


def version(name: str) -> str | None:
    """Returns the version of an installed package; None where it cannot be imported."""
    if importlib.util.find_spec(name) is None:
        return None
    names = importlib.metadata.packages_distributions().get(name, [name])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    print(json.dumps(facts()))
