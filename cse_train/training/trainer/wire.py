"""What a run's process is told when it starts, and what it and its rank say to each other: JSON, a line each."""

import json
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cse_train.results import Json, Scalar

TRIAL_VARIABLE = "CSE_TRIAL"
"""The variable of the environment that holds an `TrialOrder`."""


@dataclass(frozen=True, kw_only=True)
class TrialOrder:
    """What a process is to do."""

    script: str
    """The user's file, whose name tracebacks have."""
    code: str
    """The file that is read: the sweep's copy."""
    root: str
    """Where the modules lie that it imports."""
    places: dict[str, str]
    """Top-level module -> the folder from which it was copied there."""
    function: str
    arguments: list[str]
    params: dict[str, Scalar]
    seed: int
    score: str
    steps: int | None
    fit_ends: list[tuple[int, int]]
    """(number of a fit from 0, step of its newest report) of what earlier attempts reported."""
    fits: str
    """What counts of several fits: `last`, `mean`; empty where the space says nothing."""
    last: str
    """The run's folder of what it goes on from."""
    best: str
    """Where the best model is to lie."""
    mark: Json
    """What stands beside the best model."""
    resumes: bool
    """Whether an earlier attempt left something."""
    wire: int
    """Descriptor of the socket to the rank."""
    life: int
    """Descriptor that ends when the rank does."""
    parent: int
    """The rank's process."""

    @classmethod
    def read(cls, text: str) -> "TrialOrder":
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))


class Wire:
    """One end of the socket."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._file = end.makefile("rw", encoding="utf8")

    def say(self, **said: Any) -> None:
        self._file.write(json.dumps(said) + "\n")
        self._file.flush()

    def ask(self, **said: Any) -> Json:
        """The answer to what is said."""
        self.say(**said)
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the rank of this run is gone")
        return dict(json.loads(line))

    def listen(self) -> Iterator[Json]:
        """What the other end says, until it is closed."""
        for line in self._file:
            yield json.loads(line)

    def end(self) -> None:
        """Let `listen` end once everything that was said is read, whoever else holds the other end."""
        self._end.shutdown(socket.SHUT_RD)
