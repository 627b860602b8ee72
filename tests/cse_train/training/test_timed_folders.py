"""Runs that begin in one second and name their folders by the time: each has the numbers that it has by hand."""

import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cse_train.training.program_child import TimedFolders

SCRIPT = """
import argparse, datetime, json, os, time
import cse

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--seed", type=int)
parser.add_argument("--output_dir")
given = parser.parse_args()
weight = json.load(open("data/rows.json"))["weight"] + json.load(open("../beside.json"))
until = FREEZE
while time.time() < until:  # all runs make their folder in the same second
    time.sleep(0.001)
out = os.path.join("out", datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
os.makedirs(out, exist_ok=True)
with open("runs.log", "a") as log:
    log.write("a run\\n")
with open(os.path.join(out, "state.json"), "w") as file:
    json.dump(given.rate * weight, file)
time.sleep(1.5)
with open(os.path.join(out, "state.json")) as file:
    cse.report(1, score=json.load(file), fraction=1)
"""
RANK = """
import sys
import time
from pathlib import Path
from tests.cse_train.training.programs import run_program

folder, rate = Path(sys.argv[1]), float(sys.argv[2])
ran = run_program(folder, (folder / "script").read_text(), into=f"attempt-{rate}", parameters={"rate": rate})
print(ran.outcome.best)
"""


@pytest.mark.timeout(120)
def test_runs_that_name_their_folders_in_the_same_second_have_a_folder_each(tmp_path: Path) -> None:

    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rows.json").write_text('{"weight": 2}')
    (tmp_path / "beside.json").write_text("1")
    (folder / "script").write_text(SCRIPT.replace("FREEZE", str(int(time.time()) + 12)))
    rates = (1.0, 2.0, 3.0)
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(folder), str(rate)], stdout=subprocess.PIPE, text=True)
        for rate in rates
    ]
    ended = [float(rank.communicate()[0].split()[-1]) for rank in ranks]
    assert ended == [3.0, 6.0, 9.0]
    folders = sorted((folder / "out").iterdir())
    assert sorted(json.loads((place / "state.json").read_text()) for place in folders) == [3.0, 6.0, 9.0]
    assert (folder / "runs.log").read_text().count("a run") == 3, "a log that all append to is nobody's"


@pytest.mark.parametrize(
    ("form", "named"),
    [
        ("%Y-%m-%d_%H-%M-%S", True), ("%b%d_%H-%M-%S_host", True), ("model-%m%d_%H%M", True), ("%d-%m-%Y_%H-%M", True),
        ("%H-%M-%S", True), ("run_%s", True), ("%Y-%m-%d", False), ("checkpoint-1200", False), ("v2.10", False),
        ("bert-base-110000000", False),
    ],
)  # fmt: skip
def test_names_with_the_time_are_known_and_others_are_left_alone(tmp_path: Path, form: str, named: bool) -> None:

    folders = TimedFolders(tmp_path / "own", "mark", pytest.fail)
    path = tmp_path / datetime.datetime.now().strftime(form) / "model"
    assert (folders._timed(str(path)) == str(path.parent)) is named
    assert folders._timed(str(tmp_path / "own" / path.parent.name)) == ""
