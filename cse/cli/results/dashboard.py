"""`cse dashboard`: a live page of a ledger's sweeps, on this machine alone."""

import contextlib
from typing import Annotated

import typer
from sqlalchemy import Engine

from analysis.ledger import shown_url
from analysis.ledger.database import connect
from cluster.monitor.dashboard.server import DashboardServer
from cse.cli import options
from cse_train.fields import ConfigError

PORT = 8300
Port = Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes any free one.")]


def dashboard(ledger: options.LedgerUrl = None, port: Port = PORT, storage: options.Storage = None) -> None:
    """Serve a page of progress, learning curves and failures until Ctrl-C; needs no running cluster."""
    engine = connected(ledger, storage)
    with DashboardServer(engine, options.storage_folder(storage), port) as server:
        print(f"sweeps of {shown_url(engine.url)} at {server.url}  (Ctrl-C ends it)", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    engine.dispose()


def connected(ledger: str | None, storage: str | None = None) -> Engine:
    """The ledger's database to read; ConfigError where the default one has not been made, else LedgerError."""
    url = options.ledger_url(ledger)
    if ledger is None and options.existing_ledger(None) is None:
        raise ConfigError([f"no ledger yet: --ledger={url}; cse run starts one, or name another"])
    return connect(url, create=False, storage=None if storage is None else options.storage_folder(storage))
