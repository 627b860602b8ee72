"""The sbatch file: what one job is, above the script that is the same for all (slurm.sh)."""

import importlib.resources
import shlex

from cluster.launch.config import Block
from cluster.launch.job import RESOURCES, LaunchJob, send


class Settings(Block):
    """How a batch job is asked for."""

    python: str
    """Python with cse-search installed, at the same path on every node."""
    time: str = "24:00:00"
    """Limit as Slurm writes it; a sweep that meets it saves its state, and the same command goes on."""
    partition: str | None = None
    account: str | None = None


def render(job: LaunchJob, settings: Settings) -> str:
    """A file that sbatch takes."""
    body = importlib.resources.files("cluster.launch.targets").joinpath("slurm.sh").read_text(encoding="utf8")
    first, rest = body.split("\n", 1)
    return "\n".join([first, *_options(job, settings), "", *_variables(job, settings), rest])


def submit(job: LaunchJob, settings: Settings) -> str:
    """Through sbatch."""
    advice = "run on a login node, or apt-get install slurm-client"
    return send(render(job, settings), ["sbatch"], advice)


def _options(job: LaunchJob, settings: Settings) -> list[str]:
    config = job.config
    options = {
        "job-name": job.name,
        "nodes": config.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": config.cpus,
        "gpus-per-node": config.gpus or None,
        "mem": f"{config.memory_gb}G" if config.memory_gb else None,
        "time": settings.time,
        "partition": settings.partition,
        "account": settings.account,
        "signal": "B:TERM@120",
        "output": f"{job.name}-%j.out",
    }
    return [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in options.items() if value is not None]


def _variables(job: LaunchJob, settings: Settings) -> list[str]:
    variables = {
        "python": settings.python,
        "storage": job.config.storage,
        "cpus": str(job.config.cpus),
        "gpus": str(job.config.gpus),
        "resources": RESOURCES,
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    return [*lines, f"sweep=({shlex.join(job.argv(settings.python, 'auto')[:-2])})"]
