"""docs/results/gallery.md is what the bundles say, and no word in it stands on tables where training did nothing."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.bundles import Bundle
from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import RecordSource, merge
from analysis.ledger.rows import RunRow
from cse.site.content import Scale
from cse.site.gallery import gather
from docs.gallery_page import text
from docs.methods_page import folder

WORDS = {"same direction", "opposite direction", "tie"}
ORDERS = {"ordering supported", "not supported"}


@pytest.mark.slow
def test_the_published_file_is_current() -> None:
    published = (folder() / "results" / "gallery.md").read_text(encoding="utf8")
    assert text() == published, "run `python -m docs.gallery_page` and commit docs/results/gallery.md"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as opened:
        for file in sorted((folder() / "results" / "bundles").glob("*.jsonl.gz")):
            bundle = Bundle(file)
            merge(opened, bundle.records(), RecordSource(file.name, bundle.header.sha256))
        yield opened


@pytest.mark.slow
def test_no_tie_direction_or_order_stands_on_a_table_without_signal(ledger: Ledger) -> None:
    """Counted from the curves and the scores of the encoders, apart from what the product makes of them."""
    scores = {entry.key: entry.rows for entry in ledger.baselines()}

    def did_nothing(scale: Scale, run: RunRow) -> bool:
        first = min(point.examples for point in scale.study.curves[run.signature])
        config = run.config
        encoder = (config["train.dev"], config["train.encoder"], config["train.corpus"], config["train.dev_max_length"])
        name = {"mean": "untrained mean", "first_last": "untrained first-last"}.get(str(config.get("method.pooler")))
        start = scores.get(encoder, {}).get(name or "untrained [CLS]")  # type: ignore[call-overload]
        assert run.best is not None and run.best_examples is not None and run.examples is not None
        below = str(config.get("method.pooler")).startswith(("cls", "mean")) and start is not None and run.best < start
        return below or first == run.best_examples < run.examples

    without, decided = 0, 0
    for sheet in gather(ledger, []).published:
        for scale in sheet.scales:
            runs = [run for _, run in scale.study.finished]
            said = {verdict.word for verdict in scale.verdicts.values()} & WORDS
            said |= {order.word for order in scale.ordering} & ORDERS
            assert all(order.p is not None and order.p < 0.05 for order in scale.ordering if order.word in ORDERS)
            if runs and 2 * sum(did_nothing(scale, run) for run in runs) >= len(runs):
                assert not said, f"{sheet.id} at {scale.name}"
                without += 1
            decided += bool(said)
    assert without >= 1 and decided >= 5, "both kinds are among the bundles"
