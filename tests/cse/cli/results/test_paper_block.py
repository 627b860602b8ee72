"""Mistakes in a space's published values: one line each, exit code 2."""

from pathlib import Path

import pytest

from cse.cli.app import main
from tests.commands import printed

SPACE = """version: 1
id: T
method: esimcse
space:
  method.dup_rate: {grid: [0.1, 0.2]}
paper:
  citation: c
  table: t
  source: s
  metric: m
  columns: [mr, cr, avg]
  scores: {avg: transfer}
  average: {column: avg, of: [mr, cr], decimals: 2}
  default: {method.dup_rate: 0.1}
  rows:
    - {key: {method.dup_rate: 0.1}, cells: {mr: 80, cr: 82, avg: 81}}
  references:
    - {label: GloVe, cells: {mr: 70, cr: 71, avg: 70.6}, as_printed: true, recomputed: {avg: 70.5}}
"""
GLOVE = "label: GloVe,"
ROW = "cells: {mr: 80, cr: 82, avg: 81}"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("- {key: {method.dup_rate: 0.1}", "- {key: {method.dup_rate: 0.3}", "row without a cell: paper.rows.key"),
        ("cells: {mr: 80", "cells: {mrr: 80", "unknown column: paper.rows.cells=mrr; did you mean mr?"),
        ("cells: {mr: 70", "cells: {mrr: 70", "unknown column: paper.references.cells=mrr"),
        ("scores: {avg", "scores: {avgg", "unknown column: paper.scores=avgg; did you mean avg?"),
        ("of: [mr, cr]", "of: [mr, crr]", "unknown column: paper.average=crr; did you mean cr?"),
        (", recomputed: {avg: 70.5}", "", "half a misprint: paper.references: GloVe: as_printed=True recomputed=None"),
        ("as_printed: true, ", "", "half a misprint: paper.references: GloVe: as_printed=False"),
        ("recomputed: {avg: 70.5}", "recomputed: {avg: 70.4}", "average does not re-add: paper.avg=70.6 of GloVe"),
        ("recomputed: {avg", "recomputed: {avgg", "unknown column: paper.recomputed=avgg of GloVe"),
        ("avg: 81}", "avg: 81.5}", "its columns give 81.0000; correct it, or keep it with `as_printed: true`"),
        ("default: {method.dup_rate: 0.1}", "default: {method.dup_rate: 0.5}", "no such cell: paper.default="),
        (
            GLOVE,
            "label: GloVe, evaluated: GloVe 6B,",
            "wrong type: paper.references.evaluated of GloVe='GloVe 6B'; give {",
        ),
        (
            GLOVE,
            "label: GloVe, evaluated: {encoder: bert-base-uncased, pooler: first},",
            "unknown pooler: paper.references.evaluated.pooler of GloVe=first; give one of mean, cls_no_mlp, last, ",
        ),
        (GLOVE, "label: GloVe, evaluated: {vector: a},", "paper.references.evaluated.vector of GloVe=a; did you mean"),
        (
            GLOVE,
            "label: GloVe, evaluated: {vectors: 6},",
            "wrong type: paper.references.evaluated.vectors of GloVe=6; ",
        ),
        (GLOVE, "label: GloVe, evaluated: {encoder: a},", "no single model: paper.references.evaluated of GloVe={"),
        (
            GLOVE,
            "label: GloVe, evaluated: {encoder: a, pooler: mean, vectors: b},",
            "no single model: paper.references",
        ),
        (
            f"- {{{GLOVE}",
            f"- 7\n    - {{{GLOVE} evaluated: GloVe 6B,",
            "wrong type: paper.references.evaluated of GloVe='GloVe 6B'; give {",
        ),
        ("scores: {avg", "unscored: {COCO: images}\n  scores: {avg", "unknown column: paper.unscored=COCO"),
        ("label: GloVe", "lable: GloVe", "wrong type: paper.references="),
        ("average: {column: avg, of: [mr, cr]", "average: {column: avg, off: [mr]", "wrong type: paper.average="),
        ("scores: {avg: transfer}", "best: low", "unknown value: paper.best=low"),
    ],
)
def test_a_mistake_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, told: str) -> None:
    assert old in SPACE
    (tmp_path / "T.yaml").write_text(SPACE.replace(old, new))
    assert main(["table", str(tmp_path / "T.yaml")]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err and any(told in line for line in said.err.splitlines()), said.err


def test_without_a_mistake_the_table_shows_the_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "T.yaml").write_text(SPACE)
    said = printed(capsys, "table", str(tmp_path / "T.yaml"), "--storage", str(tmp_path))
    assert "| paper: GloVe" in said and "70.6 sic" in said and "As printed: avg 70.6 of GloVe" in said


def test_a_table_may_be_the_paper_s_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = printed(capsys, "table", "L4", "--storage", str(tmp_path))
    assert "| paper: ALBERT-base-V2-mean" in said and "| model" in said
    (tmp_path / "T.yaml").write_text("version: 1\nid: T\nmethod: simcse\ncells: []\n")
    assert main(["table", str(tmp_path / "T.yaml")]) == 2
    assert "no single list of cells" in capsys.readouterr().err
