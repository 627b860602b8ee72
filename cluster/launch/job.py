"""A sweep that shall run elsewhere: the command line of its driver there, as data."""

from dataclasses import dataclass
from importlib.metadata import version

from cluster.launch.config import ClusterConfig

RESOURCES = '{"trial_slot": 1024}'
"""Each node brings as many places for slots as it may ever need: CPUs, GPUs and RAM are what limits them."""
HEAD = '{"node:__internal_head__": 0.001}'
"""Keeps a driver on the head, which is the last node to be taken away."""


@dataclass(frozen=True)
class Job:
    """A sweep and the cluster that shall run it."""

    config: ClusterConfig
    command: tuple[str, ...] = ()
    """`run` or `reproduce` with all that follows; empty for a cluster without a sweep."""

    def argv(self, python: str, address: str) -> list[str]:
        """The driver's command line on the cluster."""
        return [python, "-m", "cse.cli.app", *self.command, "--address", address]


def ray_version() -> str:
    """The Ray that is installed here, which nodes and images must have too."""
    return version("ray")
