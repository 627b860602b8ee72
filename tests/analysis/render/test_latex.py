"""Our LaTeX through a real LaTeX."""

import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.render.formats import render
from analysis.tables.aggregate import Baseline, aggregate
from analysis.tables.spec import PaperRow, TableSpec
from tests.run_values import value_of

DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
%s
\end{document}
"""


@pytest.mark.slow
def test_a_table_with_every_special_letter_compiles(tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("no LaTeX: apt-get install -y --no-install-recommends texlive-latex-recommended")
    spec = TableSpec(
        id="E_7",
        title=r"50% $x$ #1 {a}_b^c~d\e ± Δ → × ≥ ≤ · λ < > | & τ",
        axes=["method.dup_rate"],
        columns=["sts_dev", "sts-test:recall@1 (a_b)"],
        published=[PaperRow(key={"method.dup_rate": 0.1}, cells={"sts_dev": 83.5})],
        rows=[{"method.dup_rate": rate} for rate in (0.1, 0.2, None)],
        notes=["a note_with 100% & more"],
    )
    lines = [
        value_of({"method.dup_rate": rate}, 60 + 10 * rate - seed, column="sts_dev", seed=seed)
        for rate in (0.1, 0.2)
        for seed in (1, 2)
    ]
    table = aggregate(spec, lines, baselines=[Baseline("untrained [CLS]", {"sts_dev": -1.0})])
    text = render(table, "tex")
    assert r"\textbf{60.50}" in text and r"\underline{59.50}" in text
    (tmp_path / "table.tex").write_text(DOCUMENT % text, encoding="utf8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "table.pdf").read_bytes().startswith(b"%PDF")
