"""Two hosts on one machine: network namespaces joined by a veth pair, each with its own name and address."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster_real.processes import Processes

INTERFACE = "eth0"


class Hosts:
    """`names[i]` has the address `addresses[i]` and reaches the other host alone."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
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

    def remove(self) -> None:
        """After the processes inside have ended."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            shutil.rmtree(Path("/etc/netns", name), ignore_errors=True)

    def _known_hosts(self, name: str) -> None:
        """`ip netns exec` puts this file over /etc/hosts: gloo asks for its own host name's address."""
        file = Path("/etc/netns", name, "hosts")
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *map(" ".join, zip(self.addresses, self.names, strict=True))]
        file.write_text("\n".join(lines) + "\n", encoding="utf8")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
