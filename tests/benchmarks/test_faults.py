"""The faults' moments, results file and page; the faults themselves are campaigns."""

import dataclasses
from pathlib import Path

from benchmarks.faults import results
from benchmarks.faults.moment import drawn

TRIAL = results.Trial(
    row="worker", number=0, seed=3, points=5, delay_s=1.5, problems=[], seconds=60.0, commit=None, at="2026-01-01"
)


def test_a_moment_is_the_seeds_and_leaves_something_to_hurt() -> None:
    moments = [drawn(seed, 16) for seed in range(200)]
    assert moments == [drawn(seed, 16) for seed in range(200)]
    assert {moment.points for moment in moments} == set(range(15))
    assert all(0 <= moment.delay_s <= 3 for moment in moments)


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
    page = results.page([TRIAL, bad], {"worker": ("kill of a worker", 10), "driver": ("kill of a driver", 10)})
    assert "| kill of a worker | 10 | 2 | 1 | 60 |" in page
    assert "| kill of a driver | 10 | 0 | not shown |  |" in page
    assert "- worker 1 (seed 3): aa is lost" in page
