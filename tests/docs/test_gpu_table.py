"""docs/performance.md takes up what `make gpu` wrote, as it is."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paired import Seconds
from benchmarks.step import gpu as step
from benchmarks.step.setting import SIZES
from docs import gpu_table

PAGE = Path(gpu_table.__file__).with_name("performance.md").read_text(encoding="utf8")
TIMES = {step.OURS: [Seconds(0, 0.020), Seconds(0, 0.020)], step.FULL: [Seconds(0, 0.025), Seconds(0, 0.025)]}
TIMES |= {step.FULL_GRAPH: [Seconds(0, 0.020), Seconds(0, 0.020)]}
TIMES |= {"SimCSE in the HF Trainer": [Seconds(0, 0.030), Seconds(0, 0.050)]}


@pytest.fixture
def record() -> dict[str, Any]:
    """Of one size and batch, by the function that makes a part's figures, through JSON."""
    launched = {step.OURS: 687.0, step.FULL: 680.0, step.FULL_GRAPH: 610.0, "SimCSE in the HF Trainer": 1187.4}
    figures = step.figures(SIZES["base"], 64, TIMES, launched, work=int(5e12), peak=1e15)
    items = {"base": {"figures": figures}, "failed": {"figures": {}}}
    machine = {"card": "NVIDIA H100", "cores": 16, "torch": "2.11.0"}
    return json.loads(json.dumps({"quick": False, "machine": machine, "parts": {"step": {"items": items}}}))


def test_a_record_s_figures_replace_the_table_of_before(record: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "gpu.json").write_text(json.dumps(record))
    taken = gpu_table.take_up(PAGE, gpu_table.read(tmp_path / "gpu.json"))
    before, inside, after = (part for half in taken.split(gpu_table.BEGIN) for part in half.split(gpu_table.END))
    assert PAGE.startswith(before) and PAGE.endswith(after) and "None yet" not in inside
    name = SIZES["base"].name
    assert inside.strip().splitlines() == [
        "On NVIDIA H100, 16 cores, torch 2.11.0:",
        "",
        "| model | batch | step | ms | times ours | launches |",
        "|---|--:|---|--:|--:|--:|",
        f"| {name} | 64 | ours | 20.00 | 1.00 [1.00, 1.00] | 687 |",
        f"| {name} | 64 | ours, every sentence of 32 tokens | 25.00 | 1.25 [1.25, 1.25] | 680 |",
        f"| {name} | 64 | ours, every sentence of 32 tokens, train.graph auto | 20.00 | 1.00 [1.00, 1.00] | 610 |",
        f"| {name} | 64 | SimCSE in the HF Trainer | 40.00 | 2.00 [1.75, 2.25] | 1187 |",
        "",
        f"With every sentence of 32 tokens the step reaches 25% of the card's peak at {name}, batch 64.",
    ]
    assert gpu_table.take_up(taken, gpu_table.read(tmp_path / "gpu.json")) == taken


def test_what_is_no_measurement_of_a_card_is_refused_in_one_line(record: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    quick, no_card, no_step = (copy.deepcopy(record) for _ in range(3))
    quick["quick"], no_card["machine"]["card"], no_step["parts"] = True, None, {}
    for given, line in ((quick, "without --quick"), (no_card, "no figure of a card"), (no_step, "its part step")):
        file.write_text(json.dumps(given))
        with pytest.raises(SystemExit, match=line) as stopped:
            gpu_table.read(file)
        assert str(stopped.value).startswith(f"{file}: no ") and "\n" not in str(stopped.value)
    with pytest.raises(SystemExit, match="no gpu.json"):
        gpu_table.read(tmp_path / "absent.json")
