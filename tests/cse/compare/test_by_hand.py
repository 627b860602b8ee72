"""The word that docs/compare.md computes by hand: its scores give its line, and its numbers are scipy's."""

import re

import numpy as np
import scipy.stats

from analysis.ledger import Ledger
from tests.commands import printed
from tests.cse.compare.models import A, B, Capture, book
from tests.docs.snippets import REPO


def test_the_word_by_hand(capsys: Capture, ledger: Ledger) -> None:
    page = (REPO / "docs/compare.md").read_text(encoding="utf8")
    part = page.partition("## A word by hand\n")[2].partition("\n## ")[0]
    left, right = (
        [float(word) for word in re.findall(r"[\d.]+", row)] for row in re.findall(r"^    [AB] .*", part, re.M)
    )
    gains = np.subtract(left, right)
    error = gains.std(ddof=1) / len(gains) ** 0.5
    numbers = [f"mean is {gains.mean():.2f}", f"(n - 1) {gains.var(ddof=1):.4f}", f"= {error:.4f}."]
    for level in (0.02, 0.01):
        ends = scipy.stats.ttest_rel(left, right).confidence_interval(1 - level)
        quantile = scipy.stats.t.isf(level / 2, len(gains) - 1)
        numbers.append(f"{quantile:.3f} x {error:.4f} is {ends.low:.2f} to {ends.high:.2f}")
    assert [number for number in numbers if number not in part] == []
    book(ledger, 0.24, left)
    book(ledger, 0.08, right)
    line = printed(capsys, "gate", A, "--against", B, "--candidates", "5").splitlines()[0]
    assert f"    {line}\n" in part
