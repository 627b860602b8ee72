"""Four files of a user - a corpus, a dev set, a method and a space - as a Ray job and on a cluster of two hosts."""

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.ledger import Ledger
from tests.cluster_real.head import Head
from tests.cluster_real.hosts import Hosts
from tests.cluster_real.processes import Processes
from tests.docs.snippets import blocks

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
SPACE = """version: 1
id: own
plugins: [tension.py]
method: tension
seeds: 1
corpus: mails.txt
dev: {file: dev.tsv, name: my_dev}
set: {train.encoder: words-l1-h64, train.examples: 64, train.batch_size: 8, train.evaluations: 2}
space:
  method.negatives: {choice: [1, 3, 7]}
  train.learning_rate: {loguniform: [1.0e-5, 1.0e-3]}
search: {sampler: tpe, num_samples: 2}
"""
WORDS = "the river old bridge far garden house of a green small lamp under stone by water".split()


@pytest.fixture
def own(folder: Path) -> Path:
    """The four files in a folder of their own."""
    place = folder / "own"
    place.mkdir()
    drawn = random.Random(0)
    sentences = [" ".join(drawn.choices(WORDS, k=8)) for _ in range(80)]
    (place / "mails.txt").write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf8")
    pairs = [f"{left}\t{right}\t{i % 5}\n" for i, (left, right) in enumerate(itertools.pairwise(sentences))]
    (place / "dev.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(pairs), encoding="utf8")
    (method,) = (block.text for block in blocks("python") if block.page == "docs/your_method.md")
    (place / "tension.py").write_text(method, encoding="utf8")
    (place / "own.yaml").write_text(SPACE, encoding="utf8")
    return place


def test_a_ray_job_searches_them(head: Head, own: Path) -> None:
    said = head.finished(str(own / "own.yaml"), "--max-concurrent", "1")
    assert "2 done, 0 failed" in said
    use_results(head.processes, own, head.processes.folder / "stored")


def test_two_hosts_search_them(hosts: Hosts, own: Path) -> None:
    hosts.start_head()
    hosts.join()
    stored = own.parent / "stored"
    where = ("--address", hosts.cluster, "--workers", "2", "--max-concurrent", "1", *places(stored))
    argv = hosts.inside(hosts.names[0], "cse", "run", str(own / "own.yaml"), "--yes", *where)
    swept = hosts.processes.run(*argv, timeout=420)
    assert swept.returncode == 0, swept.stdout + swept.stderr
    assert "2 done, 0 failed" in swept.stdout
    use_results(hosts.processes, own, stored)


def places(stored: Path) -> Sequence[str]:
    return ("--ledger", str(stored / "ledger.db"), "--storage", str(stored))


def use_results(processes: Processes, own: Path, stored: Path) -> None:
    """Table, report, export and a score of the exported model, each one command."""
    space = str(own / "own.yaml")

    def cse(*words: str) -> str:
        done = processes.run("cse", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    table = cse("table", space, *places(stored))
    assert "method.negatives" in table and "train.learning_rate" in table
    page = Path(cse("report", space, *places(stored), "--out", str(own / "page")).strip())
    assert "my_dev" in page.read_text(encoding="utf8")
    ledger = Ledger.open(stored / "ledger.db", create=False)
    best = max(ledger.runs(), key=lambda run: run.best or 0.0)
    ledger.close()
    assert best.config["train.dev"] == "my_dev" and best.identity["code"]
    model = str(own / "model")
    cse("export", best.signature, "--to", model, "--plugins", str(own / "tension.py"), *places(stored))
    dev = "{file: " + str(own / "dev.tsv") + ", name: my_dev}"
    assert f"{best.best:.2f}" in cse("eval", model, "--suite", dev)
