"""Reads `cluster.yaml`, the description of a cluster for `cse launch`; `cluster/launch/cluster.yaml` is an example."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from cluster.launch import targets
from cse_train.fields import ConfigError, nearest
from search_spaces.strict_yaml import read_yaml

EXAMPLE_FILE = Path(__file__).parent / "cluster.yaml"
CLUSTER_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
"""Pattern of names that Kubernetes, Slurm and Ray all accept; KubeRay appends to them."""


class Block(BaseModel):
    """A mapping of `cluster.yaml`: strict types, text on one line, and no other keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    @field_validator("*")
    @classmethod
    def _check_line(cls, value: Any) -> Any:
        if isinstance(value, str) and "\n" in value:
            raise PydanticCustomError("line_break", "line break")
        return value


class ClusterConfig(Block):
    """A cluster, and where a sweep on it keeps its files; all paths are the cluster's."""

    version: Annotated[int, Field(ge=1, le=1)]
    name: str
    storage: str
    """Folder of runs on the cluster, seen by every node."""
    ledger: str | None = None
    """Ledger as a PostgreSQL URL without a password, or a path; None for ledger.db in `storage`."""
    data: str | None = None
    nodes: Annotated[int, Field(ge=1)] = 1
    """Number of machines that train."""
    cpus: Annotated[int, Field(ge=1)] = 1
    """CPUs of each machine that trains."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """NVIDIA GPUs of each machine that trains."""
    memory_gb: Annotated[int, Field(ge=1)] | None = None
    """GB of RAM of each machine that trains; required by KubeRay."""
    price: str | None = None
    """Price of an hour of one GPU, such as `2.5 EUR`, by which `--budget "40 EUR"` is counted."""

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if line := wrong_name(name):
            raise ValueError(line)
        return name

    @field_validator("price", mode="before")
    @classmethod
    def _check_price(cls, price: Any) -> Any:
        if isinstance(price, int | float) and not isinstance(price, bool):
            raise ValueError(f"no currency: price={price}; give that of an hour of one GPU, such as {price} EUR")
        return price

    @field_validator("storage", "data", "ledger")
    @classmethod
    def _check_place(cls, place: str | None, info: ValidationInfo) -> str | None:
        key = str(info.field_name)
        line = wrong_ledger(place) if key == "ledger" else not_absolute(key, place)
        if line:
            raise ValueError(line)
        return place


@functools.cache
def _make_model() -> type[ClusterConfig]:
    """Builds `ClusterConfig` with one more key for the block of each launch target."""
    blocks: dict[str, Any] = {targets.key(name): (targets.load(name).Settings | None, None) for name in targets.names()}
    return create_model("ClusterConfig", __base__=ClusterConfig, **blocks)


def load(path: Path) -> ClusterConfig:
    """Reads a `cluster.yaml`; raises ConfigError with every problem at once, each naming the file."""
    if not path.is_file():
        raise ConfigError([f"no such file: config={path}; copy {EXAMPLE_FILE} and fill it in"])
    try:
        return _make_model().model_validate(read_yaml(path))
    except ValidationError as error:
        raise ConfigError([f"{path}: {_line(problem)}" for problem in error.errors()]) from None


def settings_of(target: str, cluster: ClusterConfig) -> Any:
    """Returns the target's block; raises ConfigError where it is absent or the cluster lacks what the target needs."""
    settings = getattr(cluster, targets.key(target))
    if settings is None:
        raise ConfigError([f"missing part: {targets.key(target)}=; cse launch {target} needs it in cluster.yaml"])
    check = getattr(targets.load(target), "problems", None)
    problems = check(cluster, settings) if check else []
    if problems:
        raise ConfigError(problems)
    return settings


def _line(problem: ErrorDetails) -> str:
    place, value, context = problem["loc"], problem["input"], problem.get("ctx", {})
    name = ".".join(map(str, place))
    if place == ("version",):
        return f"wrong version: version={None if problem['type'] == 'missing' else value}; write version: 1"
    if problem["type"] == "missing":
        return f"missing value: {name}=; give it"
    if problem["type"] == "extra_forbidden":
        valid = [name.removesuffix(str(place[-1])) + key for key in _keys(place[:-1])]
        return f"unknown key: {name}={value}; {nearest(name, valid)}"
    if problem["type"] == "line_break":
        return f"line break: {name}=; write one line"
    if "error" in context:
        return str(context["error"])
    advice = problem["msg"].replace("Input should be", "give")
    if context.keys() & {"ge", "gt", "le", "lt"}:
        return f"out of range: {name}={value}; {advice.replace('give', 'give a number')}"
    return f"wrong type: {name}={value!r} is a {type(value).__name__}; {advice}"


def _keys(place: Sequence[int | str]) -> Iterable[str]:
    """Returns the keys that the block at `place` of the file may have."""
    block: type[BaseModel] = _make_model()
    for part in place:
        if isinstance(part, str):
            kinds = _classes(block.model_fields[part].annotation)
            block = next(kind for kind in kinds if issubclass(kind, BaseModel))
    return block.model_fields


def _classes(annotation: Any) -> Iterator[type]:
    """Yields the classes that an annotation names, such as those of `list[Block] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    yield from (kind for part in get_args(annotation) for kind in _classes(part))


def not_absolute(key: str, path: str | None) -> str | None:
    """Returns one line for a path that is not absolute, which the cluster could not resolve; else None."""
    if path is None or Path(path).is_absolute():
        return None
    if re.match("[a-z0-9]+:/", path):
        advice = "give a folder that every node sees at one path, of NFS, Lustre, EFS or Filestore"
        return f"no folder: {key}={path}; {advice}"
    return f"relative path: {key}={path}; give the absolute path on the cluster"


def wrong_name(name: str) -> str | None:
    """Returns one line for a text that cannot name a job, else None."""
    if CLUSTER_NAME.fullmatch(name):
        return None
    return f"wrong name: name={name}; lower-case letters, digits and -, at most 40, a letter first"


def wrong_ledger(ledger: str | None) -> str | None:
    """Returns one line for a ledger with a relative path, or a password that process lists would show; else None."""
    if ledger is None or "://" not in ledger:
        return not_absolute("ledger", ledger)
    parts = urlsplit(ledger)
    if parts.scheme == "sqlite":
        return not_absolute("ledger", ledger.removeprefix("sqlite:///"))
    if parts.scheme not in ("postgres", "postgresql", "postgresql+psycopg"):
        line = f"unknown database: ledger={parts.scheme}://{parts.hostname or ''}{parts.path}"
        return f"{line}; give postgresql://USER@HOST/DATABASE, or a path that every node sees"
    if parts.password is None and "password=" not in parts.query:
        return None
    masked = f"{parts.scheme}://{parts.username or ''}:***@{parts.hostname or ''}{parts.path}"
    return f"password in a file: ledger={masked}; leave it out and give PGPASSWORD or ~/.pgpass on the cluster"
