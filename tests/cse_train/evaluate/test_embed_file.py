import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from cse_train.evaluate.embed_file import count_sentences, embed_file
from cse_train.fields import ConfigError


class Lengths:
    """Each text as its length, its first character and 30 zeros."""

    name = pooler = content_hash = "lengths"
    max_length = 512

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 32), dtype=np.float32)
        rows[:, 0] = [len(text) for text in texts]
        rows[:, 1] = [ord(text[0]) if text else 0 for text in texts]
        return rows


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("cse_train.evaluate.embed_file.LINES_AT_ONCE", 7)
    written = ["x" * (i % 5) for i in range(20)]
    (tmp_path / "in.txt").write_text("\n".join(written), encoding="utf8")
    return written


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_rows_are_the_lines_in_order(suffix: str, lines: list[str], tmp_path: Path) -> None:
    source, to, told = tmp_path / "in.txt", tmp_path / f"out.{suffix}", []
    embed_file(Lengths(), source, to, count_sentences(source, to), None, told.append)
    if suffix == "npy":
        found = np.load(to)
    else:
        table = parquet.read_table(to)
        assert table["text"].to_pylist() == lines
        found = np.array(table["embedding"].to_pylist(), dtype=np.float32)
    np.testing.assert_array_equal(found, Lengths().embed(lines))
    assert found.dtype == np.float32 and told == [7, 14, 20]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", to.name]


def test_a_file_that_fails_half_way_leaves_nothing_and_the_old_one_whole(lines: list[str], tmp_path: Path) -> None:
    source, to = tmp_path / "in.txt", tmp_path / "out.npy"
    embed_file(Lengths(), source, to, 20, None, lambda done: None)
    before = to.read_bytes()

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_file(Lengths(), source, to, 20, None, stop)
    with pytest.raises(ConfigError, match=r"^changed data: file=.* had 19 sentences and has 20 now"):
        embed_file(Lengths(), source, to, 19, None, lambda done: None)
    with pytest.raises(ConfigError, match=r"^changed data: file=.* had 21 sentences and has 20 now"):
        embed_file(Lengths(), source, to, 21, None, lambda done: None)
    assert to.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ConfigError, match=r"^empty data: file=.*empty.txt has no sentence"):
        count_sentences(tmp_path / "empty.txt", tmp_path / "out.npy")
    with pytest.raises(ConfigError, match=r"^unknown format: to=.*out.txt; end the name in .npy or .parquet$"):
        count_sentences(tmp_path / "empty.txt", tmp_path / "out.txt")


MEMORY = """
import resource, sys
from pathlib import Path
from tests_embed import Lengths
from cse_train.evaluate.embed_file import embed_file
source, to, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
embed_file(Lengths(), source, to, count, None, lambda done: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_memory_does_not_grow_with_the_file(suffix: str, tmp_path: Path) -> None:
    """40 MB of embeddings more, and not 20 MB of memory more (`ru_maxrss` counts mapped pages too)."""
    (tmp_path / "tests_embed.py").write_bytes(Path(__file__).read_bytes())
    peaks = []
    for count in (10_000, 330_000):
        source = tmp_path / f"{count}.txt"
        source.write_text("word\n" * count, encoding="utf8")
        arguments = [str(source), str(tmp_path / f"{count}.{suffix}"), str(count)]
        command = [sys.executable, "-c", MEMORY, *arguments]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100)
        peaks.append(int(told.stdout) / 1024)
    assert peaks[1] - peaks[0] < 20, (peaks, resource.getpagesize())
