"""`cse dashboard`: serves a live page of a ledger's sweeps, on this machine only."""

import contextlib
from typing import Annotated

import typer

from analysis.ledger import Ledger, mask_password
from analysis.tables.spec import TableError
from cse.cli import ledgers, options
from cse.cli.loader import deferred
from cse.live_page.server import DashboardServer, keep_token
from cse_train.fields import ConfigError
from cse_train.files import cache_folder

with deferred(__name__):
    from analysis.answers import lookup, study

PORT = 8300
Port = Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes any free one.")]


def dashboard(ledger: ledgers.LedgerUrl = None, port: Port = PORT, storage: options.Storage = None) -> None:
    """Serve a page of progress, learning curves and failures until Ctrl-C; needs no running cluster.

    The address has a token in it, of which the browser makes a cookie; without it the page shows nothing.
    """
    engine = ledgers.connect_ledger(ledger, storage)
    opened = Ledger(engine)

    def decide(name: str) -> dict[str, object]:
        sweep = lookup.sweep_of(name, opened)
        try:
            return study.still_open(sweep, opened, ledger) if sweep else {}
        except (ConfigError, TableError) as error:
            return {"problem": str(error).splitlines()[0]}

    token = keep_token(cache_folder().resolve())
    with DashboardServer(engine, ledgers.storage_folder(storage), port, token, decide) as server:
        print(f"sweeps of {mask_password(engine.url)} at {server.url}  (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    engine.dispose()
