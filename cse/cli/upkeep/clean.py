"""`cse clean`: what runs left on disk and nothing refers to; shows it, and deletes it when told to."""

from typing import Annotated

import typer

from cluster.sweep import retention
from cse.cli import options

Delete = Annotated[bool, typer.Option("--delete", help="Delete; without it nothing is touched.")]


def clean(
    ledger: options.LedgerUrl = None,
    storage: options.Storage = None,
    keep_top: options.KeepTop = None,
    disk_quota: options.DiskQuota = None,
    delete: Delete = False,
) -> int:
    """Show what may be deleted: attempts that a finished one replaced, and with --keep-top or --disk-quota checkpoints.

    Never goes: what runs or may go on, a model with scores in the ledger, and runs that this ledger does not know.
    """
    folder = options.storage_folder(storage)
    quota = None if disk_quota is None else retention.parse_size(disk_quota)
    opened = options.open_ledger(ledger)
    referred = retention.referred_models(opened, options.ledger_url(ledger))
    found = retention.plan_cleaning(opened, folder, keep_top, quota, referred)
    for one in found.removable:
        print(f"{one.kind:10}  {_megabytes(one.size):>10}  {one.folder}")
    if delete:
        print(f"{_megabytes(retention.remove(opened, found.removable))} freed of {_megabytes(found.used)}")
    else:
        print(f"{_megabytes(found.freed)} of {_megabytes(found.used)} would be freed; --delete does it")
    if found.over:
        print(f"still {_megabytes(found.over)} above the quota: the rest is in use or has scores")
    return 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
