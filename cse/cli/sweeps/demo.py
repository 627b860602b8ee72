"""`cse demo`: trains a small sweep on generated text, and shows its table, its figure and the best model."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from analysis.answers import baselines, build
from analysis.answers.lookup import best_of, lineage_of
from analysis.ledger import Ledger
from analysis.run_folder import RunFolder
from analysis.run_state import RunState
from cluster.runtime.options import SweepOptions
from cse.cli import exit, ledgers, options, screen, table_text
from cse.cli.loader import deferred
from cse.cli.sweep_options import check_fit, print_outcome
from cse.experiments import request as sweeping
from cse_train.fields import Scalar
from search_spaces import cells
from search_spaces.catalog import load_space
from search_spaces.cells import resolve

with deferred(__name__):
    from analysis.figures import table as figures
    from cse.experiments import run as experiments
    from cse.experiments import untrained
    from cse_train.export import export as exporting


SMALL_SCALE = (
    "Small scale: a miniature encoder, a generated corpus and a generated dev set. "
    "The numbers show that everything works, not how the methods compare."
)


def demo(storage: options.Storage = None, ledger: ledgers.LedgerUrl = None, workers: options.Workers = 2) -> int:
    """Train 2 methods x 3 settings x 2 seeds on a generated corpus and print the table. Needs no data, no network."""
    return run_demo(ledgers.storage_folder(storage), ledgers.ledger_url(ledger), workers)


def run_demo(folder: Path, ledger_url: str, workers: int, overrides: Mapping[str, Scalar] | None = None) -> int:
    """Trains missing runs, prints the table, writes figure and model beside the runs, and returns the exit code.

    `overrides`: settings that make the demo smaller.
    """
    space = load_space("demo")
    request = sweeping.Request(
        resolved=resolve(space, overrides=overrides),
        seeds=space.seeds,
        paths=options.data_paths(None, None, None),
        ledger=ledger_url,
        options=SweepOptions(storage=folder, workers=workers),
    )
    check_fit(request.options)
    ledger = ledgers.open_ledger(request.ledger, folder, create=True)
    work = sweeping.work_of([request], ledger)
    print(f"{work.line()}  (ledger {ledger.url})", flush=True)
    code = exit.DONE
    if not work.nothing_left:
        code = print_outcome(experiments.run_grid(request, work), ledger.url)
    if code == exit.INTERRUPTED:
        return code
    setups, columns = cells.setups(request.resolved), build.columns_of(request.resolved)
    if not work.nothing_left or not baselines.read_stored(setups, columns, ledger):
        untrained.ensure(request.resolved, ledger, request.paths)
    table = build.build(request.resolved, ledger)
    print()
    print(table_text.show_table(table))
    print(screen.prose(SMALL_SCALE))
    figure, model = folder / "demo.png", folder / "demo-model"
    if not work.nothing_left or not figure.exists():
        figures.draw(table, figure)
    print(f"figure {figure}")
    best = best_of(ledger.runs(states=[RunState.DONE], signatures=[run.signature for run in work.runs]))
    if best is not None and best.files is not None:
        _export(best.signature, best.files, model, ledger)
        print(f"model  {model}  (SentenceTransformer('{model}') loads it)")
    return code


def _export(signature: str, files: RunFolder, to: Path, ledger: Ledger) -> None:
    """Exports a run's model in sentence-transformers' layout, unless `to` already holds that run's export."""
    mark = to / "cse_run.txt"
    if mark.exists() and mark.read_text(encoding="utf8").strip() == signature:
        return
    if mark.exists():
        shutil.rmtree(to)
    agreement = exporting.export(files.best, to, "sentence-transformers", lineage=lineage_of(files.path, ledger))
    print("\n".join(agreement.lines()))
    mark.write_text(signature + "\n", encoding="utf8")
