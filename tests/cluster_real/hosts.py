"""Two hosts on one machine: network namespaces joined by a veth pair, each with its own name and address."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import psutil

from tests.cluster_real.processes import Processes, below, title, wait_until

INTERFACE = "eth0"
PORT = 6379
HERE = Path(__file__).resolve().parent


class Hosts:
    """`names[i]` has the address `addresses[i]` and reaches the other host alone."""

    def __init__(self, processes: Processes, temporary: Path | None = None) -> None:
        """Ray's nodes keep their sessions in folders of `temporary`, whose path is short because sockets lie there."""
        self.processes = processes
        self.temporary = temporary or processes.folder
        self.nodes: list[subprocess.Popen[bytes]] = []
        """Every `ray start --block` so far."""
        tag = f"{os.getpid() % 65536:04x}"
        self.names = (f"cse{tag}a", f"cse{tag}b")
        self.addresses = ("10.77.1.1", "10.77.1.2")

    def create(self) -> None:
        for name in self.names:
            _ip("netns", "add", name)
        first, second = self.names
        pair = ("type", "veth", "peer", "name", INTERFACE, "netns", second)
        _ip("link", "add", INTERFACE, "netns", first, *pair)
        for name, address in zip(self.names, self.addresses, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", INTERFACE)
            for link in (INTERFACE, "lo"):
                _ip("-n", name, "link", "set", link, "up")
            self._known_hosts(name)

    def inside(self, name: str, *argv: str) -> tuple[str, ...]:
        """The command line that runs `argv` on the host of this name."""
        script = 'hostname "$0" && exec "$@"'
        return ("ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", script, name, *argv)

    @property
    def cluster(self) -> str:
        """The address that `ray start` and drivers take."""
        return f"{self.addresses[0]}:{PORT}"

    def start_head(self, cpus: int = 1) -> None:
        """Ray's head on the first host."""
        self._start_node(0, "--head", "--port", str(PORT), "--num-cpus", str(cpus))

    def join(self) -> None:
        """A node with one CPU on the second host."""
        self._start_node(1, "--address", self.cluster, "--num-cpus", "1")

    def trains(self) -> bool:
        """Whether the node that joined last has a rank."""
        return any("TrainWorker" in title(process) for process in below(self.nodes[-1].pid))

    def kill(self) -> None:
        """Kill -9 of all that runs on the node that joined last."""
        node = self.nodes[-1]
        for process in (*below(node.pid), psutil.Process(node.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        node.wait()

    def remove(self) -> None:
        """After the processes inside have ended."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            shutil.rmtree(Path("/etc/netns", name), ignore_errors=True)

    def _start_node(self, index: int, *where: str) -> None:
        name, address, log = self.names[index], self.addresses[index], f"node-{len(self.nodes)}.log"
        temporary = str(self.temporary / f"ray{len(self.nodes)}")
        size = ("--resources", '{"trial_slot": 8}', "--object-store-memory", str(128 * 2**20))
        node = ("ray", "start", *where, "--node-ip-address", address, "--temp-dir", temporary, *size)
        own = {"PYTHONPATH": f"{self.processes.environment['PYTHONPATH']}:{HERE}"}
        argv = self.inside(name, *node, "--disable-usage-stats", "--block")
        self.nodes.append(self.processes.start(*argv, log=log, env=own))
        wait_until(lambda: "runtime started" in self.processes.said(log), 120, f"{name}: {self.processes.said(log)}")

    def _known_hosts(self, name: str) -> None:
        """`ip netns exec` puts this file over /etc/hosts: gloo asks for its own host name's address."""
        file = Path("/etc/netns", name, "hosts")
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names, strict=True))]
        file.write_text("\n".join(lines) + "\n", encoding="utf8")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
