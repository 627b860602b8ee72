"""`cse clean`: lists files of runs that nothing refers to any more, and deletes them with --delete."""

from typing import Annotated

import typer

from cluster.sweep import retention
from cse.cli import ledgers, options
from cse.cli.listing import size

Delete = Annotated[bool, typer.Option("--delete", help="Delete; without it nothing is deleted.")]


def clean(
    ledger: ledgers.LedgerUrl = None,
    storage: options.Storage = None,
    keep_top: options.KeepTop = None,
    disk_quota: options.DiskQuota = None,
    user: options.User = None,
    delete: Delete = False,
) -> int:
    """Show what may be deleted: attempts that a finished one replaced, and with --keep-top or --disk-quota checkpoints.

    It keeps runs that train or may continue, models with scores, and runs that this ledger does not know. With --user
    it looks at that user's runs alone; another's are deleted only so.
    """
    folder = ledgers.storage_folder(storage)
    quota = None if disk_quota is None else retention.parse_size(disk_quota)
    opened = ledgers.open_ledger(ledger, storage)
    referred = retention.list_referred(opened)
    cleaning = retention.plan_cleaning(opened, folder, keep_top, quota, referred, user=user)
    if delete:
        retention.require_own((item.user for item in cleaning.removable), user)
    for item in cleaning.removable:
        print(f"{item.kind:10}  {size(item.size):>10}  {item.folder}")
    if delete:
        print(f"{size(retention.remove(opened, cleaning.removable))} freed of {size(cleaning.used)}")
    else:
        print(f"{size(cleaning.freed)} of {size(cleaning.used)} would be freed; --delete does it")
    if cleaning.over:
        print(f"still {size(cleaning.over)} above the quota: the rest is in use or has scores")
    return 0
