"""`cluster.yaml`: what `cse launch` must know of a cluster. `cluster/launch/cluster.yaml` is a documented example."""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from cse_train import fields
from cse_train.fields import ConfigError, Range
from search_spaces.strict_yaml import read_yaml

NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""What Kubernetes, Slurm and Ray all take as a name; KubeRay appends to it, so 40 characters at most."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RayJob:
    """A Ray cluster that runs already."""

    address: str
    """Its dashboard, for example http://head:8265."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slurm:
    """How a batch job is asked for."""

    python: str
    """Python with cse-search installed, at the same path on every node."""
    time: str = "24:00:00"
    """Limit as Slurm writes it; a sweep that meets it saves its state, and the same command goes on."""
    partition: str | None = None
    account: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeRay:
    """Where pods run and what they mount."""

    image: str
    """Built from cluster/launch/Dockerfile."""
    claim: str
    """Persistent volume claim (ReadWriteMany) that every pod mounts."""
    mount: str = "/shared"
    """Where; storage, ledger and data lie under it."""
    secret: str = "ray-token"
    """Secret whose key `auth_token` is the cluster's token."""
    ledger_secret: str | None = None
    """Secret whose key `password` is the ledger's PostgreSQL password."""
    namespace: str = "default"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RayUp:
    """Hosts that `ray up` sets up: yours by `head_ip` and `worker_ips`, or machines on AWS by `instance_type`."""

    ssh_user: str
    image: str
    """Built from cluster/launch/Dockerfile; every host runs it in a container."""
    ssh_private_key: str | None = None
    head_ip: str | None = None
    worker_ips: str | None = None
    """Addresses with spaces between."""
    region: str | None = None
    instance_type: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """A cluster, and where a sweep on it keeps its things; paths are the cluster's."""

    name: str
    storage: str
    """Folder of runs, seen by every node."""
    ledger: str | None = None
    """PostgreSQL URL without a password, or a path; None for ledger.db in `storage`."""
    data: str | None = None
    nodes: Annotated[int, Range(low=1)] = 1
    """Machines that train."""
    cpus: Annotated[int, Range(low=1)] = 1
    """CPUs of each."""
    gpus: Annotated[int, Range(low=0)] = 0
    """NVIDIA cards of each."""
    memory_gb: Annotated[int, Range(low=1)] | None = None
    """RAM of each; KubeRay needs it."""
    ray_job: RayJob | None = None
    slurm: Slurm | None = None
    kuberay: KubeRay | None = None
    ray_up: RayUp | None = None


PARTS: dict[str, Any] = {"ray_job": RayJob, "slurm": Slurm, "kuberay": KubeRay, "ray_up": RayUp}


def load(path: Path) -> ClusterConfig:
    """The file's content; ConfigError with every problem at once, each naming the file."""
    if not path.is_file():
        raise ConfigError([f"no such file: config={path}; copy cluster/launch/cluster.yaml and fill it in"])
    given = read_yaml(path)
    found = _problems(given)
    if found:
        raise ConfigError([f"{path}: {line}" for line in found])
    parts = {name: fields.make(PARTS[name], given[name]) for name in PARTS if given.get(name) is not None}
    return ClusterConfig(**{k: v for k, v in given.items() if k != "version"} | parts)


def _problems(given: Mapping[str, Any]) -> list[str]:
    found = []
    if given.get("version") != 1 or isinstance(given.get("version"), bool):
        found.append(f"wrong version: version={given.get('version')}; write version: 1")
    plain = {k: v for k, v in given.items() if k != "version" and (k not in PARTS or v is None)}
    found += fields.problems(ClusterConfig, plain) + _missing(ClusterConfig, given)
    for name, part in PARTS.items():
        if isinstance(given.get(name), Mapping):
            prefix = f"{name}."
            found += fields.problems(part, given[name], prefix) + _missing(part, given[name], prefix)
        elif given.get(name) is not None:
            found.append(f"wrong type: {name}={given[name]!r}; give a mapping")
    return found or _values(given)


def _missing(config: type, given: Mapping[str, Any], prefix: str = "") -> list[str]:
    wanted = [one.name for one in dataclasses.fields(config) if one.default is dataclasses.MISSING]
    return [f"missing value: {prefix}{name}=; give it" for name in wanted if name not in given]


def _values(given: Mapping[str, Any]) -> list[str]:
    """What types cannot tell: names, paths, secrets."""
    found = []
    if not NAME.fullmatch(given["name"]):
        found.append(f"wrong name: name={given['name']}; lower-case letters, digits and -, at most 40, a letter first")
    found += [line for key in ("storage", "data") if (line := not_absolute(key, given.get(key)))]
    if line := wrong_ledger(given.get("ledger")):
        found.append(line)
    strings = {f"{part}.{k}": v for part in PARTS for k, v in (given.get(part) or {}).items()} | dict(given)
    found += [f"line break: {k}=; write one line" for k, v in strings.items() if isinstance(v, str) and "\n" in v]
    return found


def not_absolute(key: str, path: str | None) -> str | None:
    """One line for a relative path: the cluster has no folder of yours to start from."""
    if path is None or Path(path).is_absolute():
        return None
    return f"relative path: {key}={path}; give the absolute path on the cluster"


def wrong_ledger(ledger: str | None) -> str | None:
    """One line for a relative path, or for a password, which would stand in files and process lists; it is not said."""
    if ledger is None or "://" not in ledger:
        return not_absolute("ledger", ledger)
    parts = urlsplit(ledger)
    if parts.scheme == "sqlite":
        return not_absolute("ledger", ledger.removeprefix("sqlite:///"))
    if parts.password is None and "password=" not in parts.query:
        return None
    where = f"{parts.scheme}://{parts.username or ''}:***@{parts.hostname or ''}{parts.path}"
    return f"password in a file: ledger={where}; leave it out and give PGPASSWORD or ~/.pgpass on the cluster"
