"""LaTeX format with booktabs and graphicx; verdicts and order are counted in the caption."""

from collections.abc import Sequence

from analysis.answers.judge import Verdicts
from analysis.render.grid import baseline_grid, difference_line, grid, remark_lines, text_columns, title
from analysis.render.markup import Markup
from analysis.render.verdicts import add_summary
from analysis.tables.aggregate import Table
from analysis.tables.ordering import Ordering
from cse_train.reading import plain_text

_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$", "→": r"$\to$",
    "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "·": r"$\cdot$", "λ": r"$\lambda$", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "τ": r"$\tau$",
}  # fmt: skip

FITTED_TO_LINE = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""LaTeX that shrinks a part wider than the text to its width, and leaves any other as it is."""


def _escape(text: str) -> str:
    r"""Returns LaTeX that prints a text. A leading [ or * is shielded: it would be an argument of the \\ before."""
    text = plain_text(text)
    shielded = "{}" if text.lstrip().startswith(("[", "*")) else ""
    return shielded + "".join(_LATEX_SPECIAL.get(letter, letter) for letter in text)


LATEX = Markup(
    bold=lambda text: rf"\textbf{{{text}}}",
    underline=lambda text: rf"\underline{{{text}}}",
    spread=lambda text: rf"{{\scriptsize$\pm${text}}}",
    escape=_escape,
    minus="$-$",
    delta=r"$\Delta$",
    none="--",
)


def render(table: Table, verdicts: Verdicts | None, ordering: Sequence[Ordering] | None) -> str:
    table = add_summary(table, verdicts, ordering)
    header, body = grid(table, LATEX)
    texts = text_columns(table)
    captions = [line for line in (title(table), difference_line(table), *remark_lines(table)) if line]
    caption = " ".join(LATEX.escape(line.rstrip(".") + ".") for line in captions)
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{caption}}}"]
    lines += [rf"\label{{tab:{''.join(letter for letter in table.spec.id if letter.isalnum() or letter in '-_')}}}"]
    lines += _tabular(header, body, texts)
    if table.baselines:
        lines += [r"\\[1ex]", *_tabular(*baseline_grid(table, LATEX), 1)]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _tabular(header: list[str], body: list[list[str]], texts: int) -> list[str]:
    columns = "l" * texts + "r" * (len(header) - texts)
    rows = [" & ".join(entries) + r" \\" for entries in body]
    head = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    return [FITTED_TO_LINE, *head, *rows, r"\bottomrule", r"\end{tabular}}"]
