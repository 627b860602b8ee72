"""The sbatch file: what one job is, above the script that is the same for all (slurm.sh)."""

import importlib.resources
import shlex

from cluster.launch.config import Slurm
from cluster.launch.job import RESOURCES, Job


def render(job: Job, part: Slurm) -> str:
    """A file that sbatch takes."""
    body = importlib.resources.files("cluster.launch").joinpath("slurm.sh").read_text(encoding="utf8")
    first, rest = body.split("\n", 1)
    return "\n".join([first, *_asked(job, part), "", *_settings(job, part), rest])


def _asked(job: Job, part: Slurm) -> list[str]:
    config = job.config
    wanted = {
        "job-name": config.name,
        "nodes": config.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": config.cpus,
        "gpus-per-node": config.gpus or None,
        "mem": f"{config.memory_gb}G" if config.memory_gb else None,
        "time": part.time,
        "partition": part.partition,
        "account": part.account,
        "signal": "B:TERM@120",
        "output": f"{config.name}-%j.out",
    }
    return [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in wanted.items() if value is not None]


def _settings(job: Job, part: Slurm) -> list[str]:
    settings = {
        "python": part.python,
        "storage": job.config.storage,
        "cpus": str(job.config.cpus),
        "gpus": str(job.config.gpus),
        "resources": RESOURCES,
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in settings.items()]
    return [*lines, f"sweep=({shlex.join(job.argv(part.python, 'auto')[:-2])})"]
