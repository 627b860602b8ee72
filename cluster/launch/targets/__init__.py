"""The targets of `cse launch`. The folder is the registry: the module `ray_job` is the target `ray-job`.

A target has
- `Settings`: a `Block`, what `cluster.yaml` says under the module's name;
- `render(job, settings)`: the text that starts the job, which --dry-run prints;
- `submit(job, settings)`: hands the job over and returns what a person should read;
- `problems(cluster, settings)`, if the cluster must fulfil more than the types say: one line for each problem;
- `STAYS = True`, if it may start a cluster without a sweep.
"""

import importlib
import pkgutil
from types import ModuleType

__all__ = ()


def names() -> list[str]:
    """Every target as one gives it to `cse launch`, sorted."""
    return sorted(name(module.name) for module in pkgutil.iter_modules(__path__))


def name(key: str) -> str:
    """The target of a module, or of its key in `cluster.yaml`."""
    return key.replace("_", "-")


def key(target: str) -> str:
    """The module of a target, and its key in `cluster.yaml`."""
    return target.replace("-", "_")


def load(target: str) -> ModuleType:
    """The module of a target; KeyError for an unknown name."""
    if target not in names():
        raise KeyError(target)
    return importlib.import_module(f"{__name__}.{key(target)}")
