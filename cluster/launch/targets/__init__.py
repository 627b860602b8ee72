"""Registry of the targets of `cse launch`: the module `ray_job` is the target `ray-job`.

A target has `Settings`, a `Block` with what `cluster.yaml` says under the module's name; `render(job, settings)`, the
text that starts the job, which --dry-run prints; `submit(job, settings)`, which hands the job over and returns what a
person should read; `problems(cluster, settings)`, one line per problem, if the cluster must fulfil more than the types
say; and `STAYS = True`, if it may start a cluster without a sweep.
"""

import importlib
import pkgutil
from types import ModuleType

__all__ = ()


def names() -> list[str]:
    """Returns the names of all targets as given to `cse launch`, sorted."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def key(target: str) -> str:
    """Returns the module's name of a target, which is also its key in `cluster.yaml`."""
    return target.replace("-", "_")


def load(target: str) -> ModuleType:
    """Imports the module of a target; raises KeyError for an unknown name."""
    if target not in names():
        raise KeyError(target)
    return importlib.import_module(f"{__name__}.{key(target)}")
