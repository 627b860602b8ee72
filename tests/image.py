"""What the Dockerfile copies and installs, without a container engine, and a job that KubeRay would start there."""

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

from cluster.launch.config import load
from cluster.launch.files import bring_files
from cluster.launch.job import LaunchJob

REPO = Path(__file__).resolve().parents[1]
LAUNCH = REPO / "cluster" / "launch"
DOCKERFILE = (LAUNCH / "Dockerfile").read_text(encoding="utf8").replace("\\\n", " ")


def copied(to: Path) -> Path:
    """The image's folder after the COPY lines."""
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.M):
        *sources, place = line.split()
        (to / place).mkdir(parents=True, exist_ok=True)
        for source in sources:
            if (REPO / source).is_dir():
                shutil.copytree(REPO / source, to / place, dirs_exist_ok=True)
            else:
                shutil.copy(REPO / source, to / place)
    return to


def installs() -> list[str]:
    """The RUN lines that install Python packages."""
    return [line for line in re.findall(r"^RUN (.*)$", DOCKERFILE, re.M) if line.startswith("pip install")]


def empty(place: Path, *, with_pip: bool = False) -> tuple[Path, Path]:
    """`bin` and `site-packages` of a new environment."""
    venv.create(place, symlinks=True, with_pip=with_pip)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([place / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    return place / "bin", Path(done.stdout.strip())


def environment(programs: Path, home: Path) -> dict[str, str]:
    """The image's variables: its programs come first, and nothing of ours is found but by installing it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "CSE_CACHE": str(home / "cache"), "HF_HUB_OFFLINE": "1"}


def job(verb: str, space: Path, *options: str) -> LaunchJob:
    """What `cse launch` makes of a space of the user's own; its storage lies beside the space."""
    storage = space.parent / "stored"
    config = load(LAUNCH / "cluster.yaml").model_copy(update={"storage": str(storage), "data": None})
    sent = bring_files([str(space)], None, [])
    places = ("--storage", str(storage), "--ledger", str(storage / "ledger.db"))
    return LaunchJob(config, (verb, *sent.ids, *(places if verb == "run" else ()), *options), sent.files)
