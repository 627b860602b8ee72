"""Launch target Slurm: writes the head of an sbatch file, above the script that all jobs share (slurm.sh)."""

import importlib.resources
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from cluster.launch.config import Block, ClusterConfig, not_absolute
from cluster.launch.job import RESOURCES, LaunchJob, send
from cse_train.fields import ConfigError

SAVE_SIGNAL_SECONDS = 120
"""Seconds before the time limit at which a sweep is told to save its state."""
MIN_TIME_LIMIT_SECONDS = 300
"""Minimum time limit of a job in seconds: Ray's start on every node, the signal to save, and some training."""
TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
"""Pattern of Slurm's time limits: days, and one to three numbers."""
OPTION = re.compile("[a-z][a-z-]+")
REPLACEABLE_OPTIONS = {"gpus-per-node", "mem", "output"}
"""Names of sbatch options written by this module that a user's `options` may replace."""
CLIENT_ADVICE = "run on a login node, or apt-get install slurm-client"


class Container(Block):
    """Container image in which every node runs Python."""

    runtime: Literal["pyxis", "apptainer"]
    image: str
    """Container image, in the form of srun's --container-image or of apptainer."""
    mounts: list[str] = Field(default_factory=list)
    """Further folders of the nodes to mount; storage, data and /tmp are always mounted."""


class Settings(Block):
    """Block `slurm` of cluster.yaml: the options of a batch job."""

    python: str
    """Python with cse-search installed, at the same path on every node, or in the container."""
    time: str | None = "24:00:00"
    """Time limit as Slurm writes it, None for the partition's; the same command continues a sweep that meets it."""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    requeue: bool = False
    """True if the job is requeued at its time limit; Slurm may then also requeue it when a node fails or is taken."""
    drivers: Annotated[int, Field(ge=1)] = 1
    """Number of jobs in an array, each with its own nodes and driver, on one ledger."""
    modules: list[str] = Field(default_factory=list)
    """Names that `module load` receives before Python starts."""
    container: Container | None = None
    options: dict[str, str | int | bool | None] = Field(default_factory=dict)
    """Further sbatch options; true for one without a value, None removes an option that this module writes."""

    @field_validator("time")
    @classmethod
    def _check_time(cls, limit: str | None) -> str | None:
        if limit is None:
            return limit
        if not (parts := TIME.fullmatch(limit)):
            raise ValueError(f"no time limit: slurm.time={limit}; write minutes, 24:00:00 or 2-00:00:00")
        if count_seconds(parts) < MIN_TIME_LIMIT_SECONDS:
            why = f"the sweep saves its state {SAVE_SIGNAL_SECONDS} s before the end"
            advice = f"give at least {MIN_TIME_LIMIT_SECONDS // 60} minutes"
            raise ValueError(f"too short: slurm.time={limit}; {why}: {advice}")
        return limit

    @field_validator("modules")
    @classmethod
    def _check_modules(cls, modules: list[str]) -> list[str]:
        for name in modules:
            if not re.fullmatch(r"[^\s-]\S*", name):
                raise ValueError(f"no module: slurm.modules={name!r}; list names such as cuda/12.4")
        return modules


def count_seconds(parts: re.Match[str]) -> int:
    """Returns the seconds of a time limit in Slurm's forms D-H, D-H:M, D-H:M:S, M, M:S and H:M:S."""
    days, *rest = parts.groups()
    numbers = [int(part) for part in rest if part is not None]
    # Slurm reads one or two numbers without days as M and M:S, and numbers after days as H, H:M and H:M:S.
    if days is None and len(numbers) < 3:
        numbers.insert(0, 0)
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def problems(cluster: ClusterConfig, settings: Settings) -> list[str]:
    """Returns one line per wrong `options` entry (unknown, or set by another key) and per mount without a path."""
    reserved = _make_options(LaunchJob(cluster), settings).keys() - REPLACEABLE_OPTIONS
    lines = []
    for name, value in settings.options.items():
        setting = f"slurm.options.{name}={value}"
        if not OPTION.fullmatch(name) or "\n" in str(value):
            lines.append(f"no option of sbatch: {setting}; write its long name without -- and a value on one line")
        elif name in reserved:
            lines.append(f"not here: {setting}; it has a key of its own, or the script needs it as it is")
    mounts = settings.container.mounts if settings.container else []
    return lines + [line for mount in mounts if (line := not_absolute("slurm.container.mounts", mount))]


def render(job: LaunchJob, settings: Settings) -> str:
    """Renders an sbatch file; raises ConfigError for several drivers on a ledger that is a file."""
    ledger = _find_value(job, "--ledger")
    if settings.drivers > 1 and not ledger.startswith("postgresql"):
        line = f"a file for several hosts: slurm.drivers={settings.drivers}, ledger={ledger}"
        raise ConfigError([f"{line}; drivers share a PostgreSQL ledger: give its URL, or drivers: 1"])
    body = importlib.resources.files("cluster.launch.targets").joinpath("slurm.sh").read_text(encoding="utf8")
    first, rest = body.split("\n", 1)
    options = dict(_make_options(job, settings)) | settings.options
    option_lines = [_write_option(name, value) for name, value in options.items() if value not in (None, False)]
    load = ["", f"module load {shlex.join(settings.modules)}"] if settings.modules else []
    # Only a login shell knows `module` on every site.
    shell = f"{first} -l" if load else first
    return "\n".join([shell, _describe(job, settings), *option_lines, *load, "", *_variables(job, settings), rest])


def submit(job: LaunchJob, settings: Settings) -> str:
    """Submits the job through sbatch, or reports a job of this name that waits or runs; returns where the log is."""
    text = render(job, settings)
    queued = send("", ["squeue", "--me", "--noheader", "--name", job.name, "--format", "%i %T"], CLIENT_ADVICE)
    if queued:
        return f"{job.name} is there already: {', '.join(queued.splitlines())}; nothing was changed"
    answer = send(text, ["sbatch"], CLIENT_ADVICE)
    number = answer.split()[-1]
    log = str((dict(_make_options(job, settings)) | settings.options)["output"])
    for mark, value in (("%A", number), ("%j", number), ("%a", "*")):
        log = log.replace(mark, value)
    return f"{answer}; its log: {Path(log).absolute()}; its end: scancel {number}"


def _describe(job: LaunchJob, settings: Settings) -> str:
    config = job.config
    gpus = f"{config.nodes * config.gpus} GPUs, " if config.gpus else ""
    memory = f" and {config.nodes * config.memory_gb} GB of memory" if config.memory_gb else ""
    jobs = f"{settings.drivers} jobs, each" if settings.drivers > 1 else "a job"
    nodes = f"{config.nodes} nodes" if config.nodes > 1 else "1 node"
    request = f"# {job.name} asks for {jobs} of {nodes} with {gpus}{config.nodes * config.cpus} CPUs{memory}"
    limit = f", time limit {settings.time}" if settings.time else ""
    again = ", requeued at the limit until the sweep is done" if settings.requeue else ""
    ends = f"; it ends after {' or '.join(job.limits)}" if job.limits else ""
    return f"{request}{limit}{again}{ends}."


def _make_options(job: LaunchJob, settings: Settings) -> Mapping[str, str | int | bool | None]:
    config = job.config
    array = settings.drivers > 1
    return {
        "job-name": job.name,
        "nodes": config.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": config.cpus,
        "gpus-per-node": config.gpus or None,
        "mem": f"{config.memory_gb}G" if config.memory_gb else None,
        "time": settings.time,
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "reservation": settings.reservation,
        "array": f"0-{settings.drivers - 1}" if array else None,
        "requeue": settings.requeue,
        "open-mode": "append" if settings.requeue else None,
        "signal": f"B:USR1@{SAVE_SIGNAL_SECONDS}",
        "output": f"{job.name}-{'%A_%a' if array else '%j'}.out",
    }


def _write_option(name: str, value: str | int | bool | None) -> str:
    return f"#SBATCH --{name}" if value is True else f"#SBATCH --{name}={shlex.quote(str(value))}"


def _variables(job: LaunchJob, settings: Settings) -> list[str]:
    variables = {
        "python": settings.python,
        "storage": job.config.storage,
        "cpus": str(job.config.cpus),
        "gpus": str(job.config.gpus),
        "resources": RESOURCES,
        "requeue": "yes" if settings.requeue else "",
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += _enter_container(job, settings.container)
    # Without `--address auto`, the last two words: slurm.sh gives the address of the head that it has started.
    return [*lines, f"sweep=({shlex.join(job.argv(settings.python, 'auto')[:-2])})"]


def _enter_container(job: LaunchJob, container: Container | None) -> list[str]:
    """Returns shell lines that set srun's arguments (`step`) and the words before Python (`inside`)."""
    if container is None:
        return ["step=()", "inside=()"]
    # Ray's processes on a host meet in /tmp.
    places = [job.config.storage, _find_value(job, "--data"), *container.mounts, "/tmp"]
    mounts = ",".join(place if ":" in place else f"{place}:{place}" for place in dict.fromkeys(filter(None, places)))
    image = shlex.quote(container.image)
    if container.runtime == "pyxis":
        lines = f'step=(--container-image={image} --container-mounts="$mounts")', "inside=()"
    else:
        nvidia = "--nv " if job.config.gpus else ""
        lines = "step=()", f'inside=(apptainer exec {nvidia}--bind "$mounts" {image})'
    return [f"mounts={shlex.quote(mounts)}", *lines]


def _find_value(job: LaunchJob, option: str) -> str:
    words = job.command
    return words[words.index(option) + 1] if option in words else ""
