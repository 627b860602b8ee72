"""The driver on the first host: `python two_hosts_driver.py ADDRESS FOLDER` sweeps the tiny space there."""

import sys
from pathlib import Path

from cluster.commands import sweeping
from cluster.options import SweepOptions
from cluster.space import load_space
from cse_train.config import DataPaths


def main(address: str, folder: Path) -> int:
    from analysis.ledger import Ledger

    space = load_space(str(folder / "tiny.yaml"))
    ledger = Ledger.open(folder / "ledger.db")
    options = SweepOptions(
        storage=folder / "results", workers=2, max_concurrent=1, address=address, function="rank_hosts:train"
    )
    request = sweeping.Request(
        resolved=space.resolve(), seeds=space.seeds, paths=DataPaths(), ledger=ledger.url, options=options
    )
    work = sweeping.work_of(request, ledger)
    return sweeping.told(sweeping.run_grid(request, work), ledger.url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
