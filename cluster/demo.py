"""`cse demo`: the whole way in minutes, on text that the project generates itself."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cluster.commands import arguments, baselines, failure, sweeping, table
from cluster.commands.lineage import lineage_of
from cse_train.fields import Scalar

if TYPE_CHECKING:
    from analysis.ledger import Ledger, RunRow

SMALL = (
    "Small scale: a miniature encoder, a generated corpus and a generated dev set. "
    "The numbers show that everything works, not how the methods compare."
)


def run_demo(request: sweeping.Request) -> int:
    """Run what is missing, print the table, write figure and model beside the runs; returns the exit code."""
    folder = request.options.storage
    notes = arguments.notes_folder(request.ledger, folder)
    ledger = arguments.open_ledger(request.ledger, create=True)
    work = sweeping.work_of(request, ledger)
    print(f"{work.line()}  (ledger {ledger.url})", flush=True)
    code = failure.DONE
    if not work.nothing_left:
        code = sweeping.told(sweeping.run_grid(request, work), ledger.url)
    if code == failure.INTERRUPTED:
        return code
    setups, columns = table.setups(request.resolved), table.columns_of(request.resolved)
    if not work.nothing_left or not baselines.stored(setups, columns, notes):
        baselines.ensure(setups, columns, notes, request.paths)
    made = table.build(request.resolved, ledger, notes)
    print()
    print(table.rendered(made, table.Markup.md))
    print(SMALL)
    figure = folder / "demo.png"
    if not work.nothing_left or not figure.exists():
        table.draw(made, figure)
    print(f"figure {figure}")
    model = export_best(best_run(ledger, work), folder / "demo-model", ledger)
    if model:
        print(f"model  {model}  (SentenceTransformer('{model}') loads it)")
    return code


def demo_request(
    folder: Path, ledger_url: str, workers: int, overrides: Mapping[str, Scalar] | None = None
) -> sweeping.Request:
    """The shipped demo space on this machine; `overrides` make it smaller still."""
    from cluster.options import SweepOptions
    from cluster.space import load_space

    space = load_space("demo")
    return sweeping.Request(
        resolved=space.resolve(overrides=overrides),
        seeds=space.seeds,
        paths=arguments.data_paths(None, None, None),
        ledger=ledger_url,
        options=SweepOptions(storage=folder, workers=workers),
    )


def best_run(ledger: "Ledger", work: sweeping.Work) -> "RunRow | None":
    """The finished run of the demo with the highest dev score."""
    rows = ledger.runs(states=["done"], signatures=[run.signature for run in work.runs])
    return max(rows, key=lambda row: row.best or 0.0, default=None)


def export_best(run: "RunRow | None", to: Path, ledger: "Ledger") -> Path | None:
    """The run's model in sentence-transformers' layout; an export of the same run is kept."""
    if run is None or run.folder is None:
        return None
    mark = to / "cse_run.txt"
    if mark.exists() and mark.read_text(encoding="utf8").strip() == run.signature:
        return to
    from cse_train.export import export

    if mark.exists():
        shutil.rmtree(to)
    made = Path(run.folder)
    agreement = export(made / "best", to, "sentence-transformers", lineage=lineage_of(made, ledger))
    print("\n".join(agreement.lines()))
    mark.write_text(run.signature + "\n", encoding="utf8")
    return to
