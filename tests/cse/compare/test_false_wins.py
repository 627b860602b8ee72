"""A loop of candidates: the vectors say what `cse gate` says, and a loop without a better one is rarely won."""

import numpy as np
import pytest

from analysis.answers.judge import Sides, Terms, judge_models
from analysis.statistics.looks import spend
from analysis.tables.columns import entry_of
from benchmarks.loop import LOOP_CANDIDATES, GateRule, bootstrap_error, measure, one_run, words


@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_words_are_those_of_the_gate(spread: float) -> None:
    """Small spreads give ties, large ones few words."""
    scores_TRS = spread * np.random.default_rng(0).normal(size=(4, 6, 5)) + 70
    scores_TRS[:, 2] += 3
    levels = np.array([spend(k) for k in range(1, 6)])
    _, better_TC, ended_TC = words(scores_TRS, levels)
    for (t, c), better in np.ndenumerate(better_TC):
        sides = Sides(*(entry_of(dict(enumerate(scores_TRS[t, row]))) for row in (c + 1, 0)))
        made = judge_models({"avg": sides}, Terms(family=levels[c]))["avg"]
        assert (made.word == "better", made.word != "undecided") == (better, ended_TC[t, c])


def test_a_loop_ends_with_its_first_win_and_counts_its_runs() -> None:
    scores_TRS = np.full((1, 4, 24), 70.0) + np.random.default_rng(1).normal(scale=0.1, size=(1, 4, 24))
    scores_TRS[0, 2] += 5
    scores_TRS[0, 1] -= 5
    rule = GateRule((24,), (3, 8))
    made = rule.run(scores_TRS)
    assert (made.place_T[0], made.runs_T[0]) == (1, 24 + 3 + 24)
    plain = one_run(scores_TRS, 0.5)
    assert (plain.place_T[0], plain.runs_T[0]) == (1, 1 + 2)


def test_false_wins_of_a_short_simulation() -> None:
    """300 loops of 40: the gates stay below 5% and three standard errors, single runs win most."""
    deviations = np.random.default_rng(2).normal(scale=0.85, size=50)
    made = measure(deviations, 300, np.random.default_rng(3), bootstrap_error(np.random.default_rng(0)))
    false = {name: shares[0] for name, shares in made.items()}
    limit = 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5
    assert all(share <= limit for name, share in false.items() if name.startswith("gate")), false
    assert false["+0.005 after one run"] > 0.7 and LOOP_CANDIDATES == 40
