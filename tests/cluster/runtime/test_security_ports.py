"""Which ports a session's processes listen on."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cluster.runtime.processes import Listener, listeners, sessions


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Path]:
    """The folder of a session of which this process has a log open, as each of Ray's has."""
    folder = tmp_path / "session_2026-11-21_12-40-56_587490_7093"
    (folder / "logs").mkdir(parents=True)
    with (folder / "logs" / "driver.log").open("w"):
        yield folder


def test_listening_sockets_of_a_session_are_found_with_their_addresses(session: Path) -> None:
    with ExitStack() as stack:
        bound = {}
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
            opened = stack.enter_context(socket.socket(family))
            opened.bind((host, 0))
            opened.listen()
            bound[host, opened.getsockname()[1]] = host != "0.0.0.0"
        loopback = {(it.address, it.port): it.loopback for it in listeners(session)}
        assert bound.items() <= loopback.items()
    assert not bound.keys() & {(it.address, it.port) for it in listeners(session)}, "closed sockets are gone"


def test_only_sessions_with_a_living_process_are_listed(session: Path) -> None:
    (session.parent / "session_2026-01-01_00-00-00_000000_1").mkdir()
    assert sessions(session.parent) == [session]


def test_a_session_of_others_has_none_of_our_sockets(session: Path) -> None:
    with socket.socket() as opened:
        opened.listen()
        assert listeners(session.with_name("session_2026-01-01_00-00-00_000000_1")) == []


@pytest.mark.parametrize(
    ("address", "text", "loopback"),
    [
        ("127.0.0.1", "raylet 127.0.0.1:8", True),
        ("::ffff:127.0.0.1", "raylet [::ffff:127.0.0.1]:8", True),
        ("::", "raylet [::]:8", False),
        ("192.0.2.2", "raylet 192.0.2.2:8", False),
    ],
)
def test_a_listener_says_where_and_whether_other_machines_reach_it(address: str, text: str, loopback: bool) -> None:
    listener = Listener("raylet", address, 8, 1)
    assert (str(listener), listener.loopback) == (text, loopback)
