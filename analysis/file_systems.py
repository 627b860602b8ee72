"""Which file systems are shared between machines."""

import contextlib
from pathlib import Path

import psutil

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smbfs", "smb2", "smb3", "ncpfs", "afs", "davfs"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "pvfs2", "orangefs", "ocfs2"),
        *("panfs", "wekafs", "virtiofs", "juicefs", "fuse.juicefs", "fuse.weka", "fuse.panfs"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs2"),
    }
)
"""Kinds of mounts on which SQLite's locks and its shared memory do not hold between machines.
9p is not among them: it is the root of several sandboxes, local to one machine."""


def network_file_system(path: Path) -> str | None:
    """The kind of network file system that `path` lies on; None for any other, and where no mounts are known."""
    target = path.resolve()
    kind, depth = "", -1
    with contextlib.suppress(OSError):
        for mount in psutil.disk_partitions(all=True):
            point = Path(mount.mountpoint)
            if target.is_relative_to(point) and len(point.parts) >= depth:
                kind, depth = mount.fstype, len(point.parts)
    return kind if kind in NETWORK_FILE_SYSTEMS else None
