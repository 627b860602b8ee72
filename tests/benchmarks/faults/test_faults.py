"""The faults' moments, results file and page; the faults themselves are campaigns."""

import dataclasses
from pathlib import Path

from benchmarks.faults import results
from benchmarks.faults.__main__ import BARS, FILE, PAGE
from benchmarks.faults.many import problems
from benchmarks.faults.moment import LONGEST_S, drawn

TRIAL = results.Trial(
    row="worker", number=0, seed=3, points=5, delay_s=1.5, problems=[], seconds=60.0, commit=None, at="2026-01-01"
)


def test_a_moment_is_the_seeds_and_leaves_something_to_hurt() -> None:
    moments = [drawn(seed, 16) for seed in range(200)]
    assert moments == [drawn(seed, 16) for seed in range(200)]
    assert {moment.points for moment in moments} == set(range(14))
    assert all(0 <= moment.delay_s <= LONGEST_S for moment in moments)


def test_a_line_that_a_kill_cut_short_is_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "faults.jsonl"
    results.append(file, TRIAL)
    file.write_text(file.read_text() + '{"row": "wor')
    assert results.read(file) == [TRIAL]
    second = dataclasses.replace(TRIAL, number=1, problems=["aa is lost"])
    results.append(file, second)
    assert results.read(file) == [TRIAL, second]


def test_the_page_counts_what_was_as_it_should_be_and_names_the_rest() -> None:
    bad = dataclasses.replace(TRIAL, number=1, problems=["aa is lost"])
    bars = {"worker": ("kill of a worker", 10), "driver": ("kill of a driver", 10)}
    text = PAGE.read_text(encoding="utf8")
    page = results.page(text, [TRIAL, bad], bars)
    assert "| kill of a worker | 10 | 2 | 1 | 60 |" in page
    assert "| kill of a driver | 10 | 0 | not shown |  |" in page
    assert page.endswith("## What did not pass\n\n- worker 1 (seed 3): aa is lost\n")
    assert results.page(page, results.read(FILE), BARS) == text, "what was written by hand stays, each figure is made"


def held(**changes: float) -> dict[str, float]:
    return {"memory": 300.0, "files": 40, "ray_files": 400, "actors": 6, "placement_groups": 2} | changes


def judged(times: list[float], **late: float) -> list[str]:
    """The verdict on such finishes, and on such holdings at the end."""
    names = [["socket"], ["socket", "/a/log"]]
    return problems({"times": times, "cpu": times, "held": [held(), held(**late)], "opened": names})


def test_a_thousand_runs_are_judged_by_their_pace_and_by_what_piles_up() -> None:
    even = [0.5 * number for number in range(1000)]
    assert judged(even, memory=399.0, files=48) == []
    slower = [*even[:900], *(even[900] + 0.7 * number for number in range(100))]
    assert "last 100 in 69.3 s" in judged(slower)[0]
    piled = judged(even, memory=401.0, actors=7, files=49)
    assert piled == ["the driver grew by 101 MB", "files: 40, then 49 (/a/log)", "actors: 6, then 7"]
