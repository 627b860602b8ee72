"""A format of bundles is one module: added to a copy of the project, `cse bundle` writes it where a name ends so."""

import gzip
from collections.abc import Callable
from pathlib import Path

from analysis.bundles import formats

OLD = Path(__file__).parents[2] / "ledger_0_1_0"
MODULE = '''
"""The names of the runs."""

SUFFIX = ".names.txt"


def write(path, contents):
    path.write_text("".join(f"{run['signature']}\\n" for run in contents.runs))
'''


def test_the_folder_is_the_registry(project_copy: Callable[..., Path], called: Callable[..., str]) -> None:
    copy = project_copy("analysis")
    (copy / "analysis" / "bundles" / "formats" / "names.py").write_text(MODULE, encoding="utf8")
    (copy / "demo.db").write_bytes(gzip.decompress((OLD / "demo.db.gz").read_bytes()))
    said = called(copy, "bundle", "demo", "--to", "demo.names.txt", "--ledger", "demo.db")
    assert said.startswith("wrote demo.names.txt: 12 runs of 1 sweep")
    names = (copy / "demo.names.txt").read_text(encoding="utf8").splitlines()
    assert len(names) == 12 and names == sorted(names)


def test_every_format_says_what_it_is_and_writes() -> None:
    assert sorted(formats.by_suffix()) == [".csv", ".jsonl.gz"]
    for suffix, module in formats.by_suffix().items():
        assert module.__doc__ and callable(module.write) and suffix.startswith(".")
