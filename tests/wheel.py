"""The project as a wheel in an environment of its own, and its command there."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]


def build(source: Path, to: Path) -> Path:
    """The wheel of what git would commit: no build leftovers of the checkout get in."""
    listed = ["git", "-C", str(REPO), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0"):
        if name and (REPO / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPO / name).read_bytes())
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(to), str(source)]
    subprocess.run(argv, check=True, timeout=300)
    (made,) = to.glob("*.whl")
    return made


def install(wheel: Path, place: Path) -> Path:
    """`cse` of a new environment that holds the wheel; its dependencies are read from the one that runs the tests."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True, timeout=300)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    Path(packages, "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf8")
    return place / "bin" / "cse"


def called(cse: Path, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = kept | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CSE_CACHE": str(folder / "cache")}
    return subprocess.run([cse, *argv], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
