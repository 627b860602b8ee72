"""The site gives a table's command as the sweep was declared."""

import contextlib
from pathlib import Path

from analysis.answers.bundle_records import check_records
from analysis.answers.lookup import space_of_sweep
from analysis.bundles import Bundle
from analysis.ledger import Ledger
from analysis.ledger.exchange.merge import RecordSource, merge
from cse.site import gallery
from search_spaces.catalog import load_space

REPO = Path(__file__).resolve().parents[3]


def test_the_site_repeats_a_table_as_it_was_declared(tmp_path: Path) -> None:
    with contextlib.closing(Ledger.open(tmp_path / "ledger.db")) as ledger:
        for name in ("tests/old_bundle/E7", "docs/results/bundles/words_tiny"):
            bundle = Bundle(REPO / f"{name}.jsonl.gz")
            merge(ledger, check_records(bundle), RecordSource(name, bundle.header.sha256))
        swept = [space_of_sweep(sweep) for sweep in ledger.sweeps() if sweep.spec.space == "E7"]
        sheet = gallery._sheet(load_space("E7"), [resolved for resolved in swept if resolved], (), ledger)
    assert {scale.name: scale.study.command for scale in sheet.scales} == {
        "tiny": "cse reproduce E7 --profile tiny --until decided --max-seeds 12",
        "wiki_small": "cse reproduce E7 --profile wiki_small --seeds 3",
    }
