"""`cse demo`: see `cluster.demo`."""

from cluster.commands import arguments


def demo(storage: arguments.Storage = None, ledger: arguments.LedgerUrl = None, workers: arguments.Workers = 2) -> int:
    """Train 2 methods x 3 settings x 2 seeds on a generated corpus and print the table. Needs no data, no network."""
    from cluster.commands.sweep_options import check_fit
    from cluster.demo import demo_request, run_demo

    request = demo_request(arguments.storage_folder(storage), arguments.ledger_url(ledger), workers)
    check_fit(request.options)
    return run_demo(request)
