"""From nothing to a table: `cse data get`, then `cse reproduce`, in an empty folder, against a hub that cuts.

Once by the checkout, and once by a wheel in an environment of its own.
"""

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.cse.downloads.publisher import publish

SETTINGS = ["train.examples=640", "train.evaluations=2"]


def called(cse: list[str], folder: Path, environment: dict[str, str], *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if cse[1:] or name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*cse, *words], cwd=folder, env=kept | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["checkout", "wheel"])
def test_two_commands_from_nothing_to_a_table(installed, request, data_dir, tmp_path):
    wheel = installed == "wheel"
    cse = [str(request.getfixturevalue("cse_of_wheel"))] if wheel else [sys.executable, "-m", "cse"]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in ("STS", "SICK"):
            tar.add(data_dir / "senteval" / "downstream" / folder, folder)
    sentences = (data_dir / "wiki" / "wiki1m_for_simcse.first.txt").read_bytes()
    with publish({"wiki1m_for_simcse.txt": sentences, "senteval.tar": archive.getvalue()}) as server:
        server.fault = "cut"
        hub = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "COLUMNS": "80"}
        fetched = called(cse, tmp_path, hub, "data", "get", "wiki1m", "sts")
    assert "use it: --data data" in fetched
    assert (tmp_path / "data" / "wiki" / "wiki1m_for_simcse.txt").read_bytes() == sentences
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    words = ["reproduce", "E7", "--profile", "tiny", "--data", "data", "--seeds", "1", *settings, "-y"]
    page = called(cse, tmp_path, {}, *words)
    rows = re.findall(r"^\| *0\.\d+ *\| *1 \| +(\d\d\.\d\d) ", page, re.MULTILINE)
    assert len(rows) == 8 and all(40 < float(score) < 80 for score in rows), page
