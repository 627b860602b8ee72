"""Rows of processes that are killed or asked to end."""

import signal
import time

import numpy as np

from benchmarks.faults.sweep import END_S, Sweep, until

SAVED_S = 10.0


class WorkerKilled(Sweep):
    """Kill -9 of one rank: the driver replaces it and nobody gives a command."""

    slots = 2

    def hurt(self, rng: np.random.Generator) -> list[str]:
        until(lambda: self.ranks() or self.driver.poll() is not None, END_S)
        ranks = self.ranks()
        ranks[int(rng.integers(len(ranks)))].kill()
        return []


class DriverKilled(Sweep):
    """Kill -9 of the driver, then the same command."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        self.driver.kill()
        self.driver.wait()
        self.start()
        return []


class Interrupted(Sweep):
    """SIGINT or SIGTERM, then the same command."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        begun = time.monotonic()
        self.driver.send_signal(signal.SIGINT if rng.random() < 0.5 else signal.SIGTERM)
        until(lambda: not any(row.live for row in self.rows()), 120)
        saved, code = time.monotonic() - begun, self.driver.wait(END_S)
        self.start()
        problems = [] if code == 130 else [f"exit code {code}, not 130"]
        return problems + ([] if saved <= SAVED_S else [f"saved after {saved:.1f} s"])


class TwoDrivers(Sweep):
    """The command given a second time while the first is at work."""

    def hurt(self, rng: np.random.Generator) -> list[str]:
        first = self.driver
        second = self.start()
        codes = [first.wait(END_S), second.wait(END_S)]
        problems = [] if codes == [0, 0] else [f"exit codes {codes}"]
        return problems + [
            f"{row.signature} was trained {row.attempt} times" for row in self.rows() if row.attempt != 1
        ]
