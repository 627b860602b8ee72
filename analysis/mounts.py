"""Which file system a path lies on, and whether locks hold there between machines."""

from pathlib import Path

NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smbfs", "smb2", "smb3", "ncpfs", "afs", "davfs"),
        *("lustre", "gpfs", "beegfs", "ceph", "glusterfs", "pvfs2", "orangefs", "ocfs2"),
        *("fuse.sshfs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.davfs2"),
    }
)
"""Kinds in /proc/mounts on which SQLite's locks and its shared memory do not hold between machines.
9p is not among them: it is the root of several sandboxes, local to one machine."""


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The kind of network file system that `path` lies on, or None; `mounts` is the text of /proc/mounts."""
    if mounts is None:
        mounts = _read_mounts()
    target = path.resolve()
    kind, depth = "", -1
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if target.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = fields[2], len(point.parts)
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def _read_mounts() -> str:
    try:
        return Path("/proc/mounts").read_text()
    except OSError:
        return ""
