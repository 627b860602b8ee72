"""Slurm on one machine: munge, one controller and two nodes, all in a folder and on ports of their own."""

import contextlib
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.cluster_real.processes import Processes, wait_until

CANCEL_S = 40.0
"""Seconds that a cancelled job has to end in order; KillWait, after which Slurm kills it, is 30."""
CONF = """ClusterName=cse
SlurmctldHost=localhost
SlurmctldPort={controller}
FirstJobId={job}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/node-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=2 State=UNKNOWN
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """One cluster of two nodes; `first_job` is the number of its first job, another one at each start."""

    def __init__(self, processes: Processes, free_port: Callable[[], int]) -> None:
        self.processes = processes
        self.folder = processes.folder / "slurm"
        ports = {name: free_port() for name in ("controller", "first", "second")}
        self.first_job = ports["controller"]
        self.conf = CONF.format(folder=self.folder, job=self.first_job, **ports)
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        """Until both nodes are idle."""
        (self.folder / "state").mkdir(parents=True)
        (self.folder / "slurm.conf").write_text(self.conf, encoding="utf8")
        self._munge()
        conf = self.environment["SLURM_CONF"]
        self.processes.start("/usr/sbin/slurmctld", "-D", "-c", "-f", conf, log="slurmctld.out", env=self.environment)
        for node in ("n1", "n2"):
            slurmd = ("/usr/sbin/slurmd", "-D", "-N", node, "-f", conf)
            self.processes.start(*slurmd, log=f"slurmd-{node}.out", env=self.environment)
        wait_until(lambda: self.run("sinfo", "-h", "-o", "%D %t") == "2 idle", 60, "two idle nodes")

    def run(self, *argv: str) -> str:
        """What a client says, without blanks around it; errors too."""
        done = self.processes.run(*argv, env=self.environment, timeout=60)
        return (done.stdout + done.stderr).strip()

    def stop(self) -> None:
        """Cancel what runs, let it clean up, end every process and remove what a job cut short left in /tmp."""
        self.run("scancel", "--full", "--user=root")
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.run("squeue", "-h") == "", CANCEL_S, "the end of cancelled jobs")
        self.processes.end()
        for scratch in self.scratch():
            shutil.rmtree(scratch, ignore_errors=True)

    def scratch(self) -> list[Path]:
        """Folders that nodes of the first job have outside the storage."""
        return list(Path("/tmp").glob(f"ray-{self.first_job}-*"))

    def _munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o600)
        files = {"socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log", "seed-file": "munge.seed"}
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        munged = ("/usr/sbin/munged", "--foreground", "--force", f"--key-file={key}", *options)
        self.processes.start(*munged, log="munged.out")
        wait_until(lambda: (self.folder / "munge.socket").exists(), 30, "munge's socket")
