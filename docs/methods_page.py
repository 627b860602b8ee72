"""docs/methods.md from the papers' tables and docs/proofs.yaml: `python -m docs.methods_page` writes it."""

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from analysis.render.markup import MARKDOWN
from cse.cli.sweeps.variants import trains_own_runs
from cse_train import fields, methods
from cse_train.fields import Scalar
from search_spaces.catalog import ALL, find_folder, load_all
from search_spaces.cell_names import cell_name, setting
from search_spaces.cells import Cell, resolve
from search_spaces.identity.method_code import read_released
from search_spaces.space import Space

Proofs = Mapping[str, Mapping[str, list[str]]]
"""Method, or `train` -> setting -> tests."""
ANY = "*"
HEAD = """\
# Every variant of the papers' tables

One row per cell of each table: the settings that make it (all others are the method's defaults, under
`--profile paper` the paper's scale), what the paper prints, and the tests that prove it, under `tests/cse_train/`.
`cse run ID` trains a table, `cse variants all` tries every row for 12,800 examples. Made by
`python -m docs.methods_page` from `search_spaces/papers/` and `docs/proofs.yaml`.

S4 (alignment and uniformity along the training) is logged by every run; E6 (does repetition bias the similarity?)
evaluates finished models. Neither has a setting of its own.
"""
OPTIONS = """\
## Options beside the tables

Where a paper and its released code differ, or a paper gives a setting that it does not vary.
"""


def trained_tables() -> list[Space]:
    """The papers' tables that train runs of their own."""
    return [space for space in load_all([ALL]) if trains_own_runs(space)]


def folder() -> Path:
    """The docs of this checkout."""
    return find_folder().parent / "docs"


def text() -> str:
    """The published file's content."""
    proofs = read_proofs()
    spaces = sorted(trained_tables(), key=lambda space: ("SDECL".index(space.id[0]), int(space.id[1:])))
    tables = [_table(space, proofs) for space in spaces]
    return "\n".join([HEAD, *tables, OPTIONS, _options(spaces, proofs)])


def read_proofs() -> Proofs:
    """What docs/proofs.yaml says: a file of ours, whose methods share lists by YAML's aliases."""
    import yaml

    content = yaml.safe_load((folder() / "proofs.yaml").read_text(encoding="utf-8"))
    return {name: proofs for name, proofs in content.items() if name != "version"}


def settings_of(space: Space, cell: Cell) -> dict[str, Scalar]:
    """What a row sets, its method first."""
    return {"method": cell.settings["method"], **space.settings, **cell.key}


def proofs_of(settings: Mapping[str, Scalar], proofs: Proofs) -> list[str]:
    """The tests of each setting, else those of the method alone."""
    by_setting = {**proofs["train"], **proofs[str(settings["method"])]}
    lists = (by_setting.get(setting(key, value), by_setting.get(key, [])) for key, value in settings.items())
    return list(dict.fromkeys(itertools.chain.from_iterable(lists))) or by_setting[ANY]


def _table(space: Space, proofs: Proofs) -> str:
    assert space.paper is not None
    rows = [(row.key, row.cells) for row in space.paper.rows]
    printed = [({a: key.get(a) for a in space.axis_names}, cells) for key, cells in rows]
    lines = []
    for cell in resolve(space, "paper").rows():
        settings = settings_of(space, cell)
        key = {axis: cell.key.get(axis) for axis in space.axis_names}
        paper = next((cells for row, cells in printed if row == key), {})
        keys = " ".join(f"`{setting(key, value)}`" for key, value in settings.items())
        numbers = ", ".join(f"{name} {value:.2f}".removesuffix("0") for name, value in paper.items())
        lines.append([cell.label or cell_name(cell.key), keys, numbers, _tests(proofs_of(settings, proofs))])
    source = f"{space.paper.citation}: {space.paper.table}. {space.paper.metric}."
    said = [note for note in (space.notes, space.paper.notes, space.paper.finding) if note]
    heads = ["variant", "settings", "paper", "proved by"]
    return "\n\n".join([f"## {space.id} · {space.title}", source, *said, _markdown(heads, lines)]) + "\n"


def _options(spaces: list[Space], proofs: Proofs) -> str:
    used = {(s.settings["method"], key) for space in spaces for s in resolve(space, "paper").rows() for key in s.key}
    lines = []
    for method in sorted(read_released()):
        config, by_setting = methods.config_class(method)(), proofs.get(method, {})
        for name in fields.hints(config.__class__):
            key = f"method.{name}"
            if (method, key) not in used:
                lists = [tests for proof, tests in by_setting.items() if proof.partition("=")[0] == key]
                default = f"`{json.dumps(getattr(config, name))}`"
                lines.append([method, f"`{key}`", default, _tests(dict.fromkeys(itertools.chain(*lists)))])
    return _markdown(["method", "setting", "default", "proved by"], lines) + "\n"


def _tests(tests: Iterable[str]) -> str:
    return ", ".join(f"`{test}`" for test in tests)


def _markdown(heads: list[str], lines: list[list[str]]) -> str:
    """Not aligned: the rows are long."""
    escaped = ([MARKDOWN.escape(entry) for entry in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, ["---"] * len(heads), *escaped])


if __name__ == "__main__":
    (folder() / "methods.md").write_text(text(), encoding="utf-8")
