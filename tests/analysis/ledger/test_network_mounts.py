"""Mounts on which a SQLite file must not lie."""

from pathlib import Path

import psutil
import pytest

from analysis.ledger.places import network_file_system

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/export /home nfs4 rw 0 0
tmpfs /home/me/scratch tmpfs rw 0 0
//nas/share /mnt/my\\040share cifs rw 0 0
me@host:/ /mnt/far fuse.sshfs rw 0 0
"""


def mounted(folder: Path, monkeypatch: pytest.MonkeyPatch, mounts: str) -> None:
    """The kernel's list of mounts, as psutil reads it."""
    (folder / "proc" / "self").mkdir(parents=True)
    (folder / "proc" / "self" / "mounts").write_text(mounts)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(folder / "proc"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/ledger.db", "nfs4"),
        ("/home/me/scratch/ledger.db", None),
        ("/homework/ledger.db", None),
        ("/mnt/my share/ledger.db", "cifs"),
        ("/mnt/far/a/b/ledger.db", "fuse.sshfs"),
        ("/var/ledger.db", None),
    ],
)
def test_network_file_systems_are_found_by_the_nearest_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    mounted(tmp_path, monkeypatch, MOUNTS)
    assert network_file_system(Path(path)) == kind


def test_where_no_mounts_are_known_a_file_is_taken_to_be_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "none"))
    assert network_file_system(tmp_path) is None


def test_a_link_onto_a_network_file_system_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounted(tmp_path, monkeypatch, f"/dev/vda / ext4 rw 0 0\nserver:/ {tmp_path / 'real'} nfs rw 0 0\n")
    assert network_file_system(tmp_path / "link" / "ledger.db") == "nfs"
