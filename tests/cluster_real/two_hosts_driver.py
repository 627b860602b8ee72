"""The driver on the first host: `python two_hosts_driver.py ADDRESS FOLDER` sweeps the tiny space there."""

import sys
from pathlib import Path

from analysis.ledger import Ledger
from cluster.runtime.options import SweepOptions
from cse.cli.sweep_options import print_outcome
from cse.experiments import request as sweeping
from cse.experiments import run
from cse_train.data_paths import DataPaths
from search_spaces.catalog import load_space
from search_spaces.cells import resolve


def main(address: str, folder: Path) -> int:
    space = load_space(str(folder / "tiny.yaml"))
    ledger = Ledger.open(folder / "ledger.db")
    options = SweepOptions(
        storage=folder / "results", workers=2, max_concurrent=1, address=address, function="rank_hosts:train"
    )
    request = sweeping.Request(
        resolved=resolve(space), seeds=space.seeds, paths=DataPaths(), ledger=ledger.url, options=options
    )
    work = sweeping.work_of([request], ledger)
    return print_outcome(run.run_grid(request, work), ledger.url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
