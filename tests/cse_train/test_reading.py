"""Errors of libraries while a person's file is read: one line with file and remedy, and nothing else is hidden."""

import errno
import gzip

import pytest

from cse_train.fields import ConfigError
from cse_train.reading import first_line, is_out_of_memory, reading, require_size


def test_an_error_of_a_library_is_one_short_line() -> None:
    with pytest.raises(ConfigError) as raised, reading("unreadable config", "a.json", "fetch it again"):
        raise RuntimeError("first\x1b[31m " + "x" * 1000 + "\nsecond")
    (line,) = raised.value.problems
    assert line.startswith("unreadable config: a.json (first [31m xxx") and line.endswith("...); fetch it again")
    assert len(line) < 250
    assert first_line(ValueError("\n \n")) == "ValueError"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError(["ours: a=1; fix"]),
        OSError(errno.EACCES, "Permission denied", "a.json"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
    ],
)
def test_ours_the_systems_and_too_little_memory_go_through(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, reading("unreadable", "a.json", "fetch it again"):
        raise error
    assert raised.value is error


def test_only_the_kinds_that_are_named_are_caught() -> None:
    told = r"^cut: a.gz \(Not a gzipped file\); fetch it"
    with pytest.raises(ConfigError, match=told), reading("cut", "a.gz", "fetch it", (gzip.BadGzipFile,)):
        raise gzip.BadGzipFile("Not a gzipped file")
    with pytest.raises(KeyError), reading("cut", "a.gz", "fetch it", (gzip.BadGzipFile,)):
        raise KeyError("a mistake of ours")


def test_memory_is_called_by_its_name() -> None:
    class OutOfMemoryError(RuntimeError):
        """As torch calls it on a GPU."""

    assert is_out_of_memory(MemoryError()) and is_out_of_memory(OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))


def test_a_file_that_is_read_whole_has_a_limit(tmp_path) -> None:
    path = tmp_path / "config.json"
    require_size(path, 3, "fetch it again")
    path.write_bytes(b"four")
    with pytest.raises(ConfigError, match=r"^too large: .*config.json has 4 bytes, 3 at most; fetch it again"):
        require_size(path, 3, "fetch it again")
