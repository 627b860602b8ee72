"""What the live page says of a table: its verdicts, what is open, and the command that adds seeds."""

from pathlib import Path

import pytest

from analysis.answers.lookup import sweep_of
from analysis.answers.study import still_open
from analysis.ledger import Ledger
from cse.cli.app import main
from tests.sides import needs
from tests.site_ledger import noise, small, train

pytestmark = needs("importers")
REPO = Path(__file__).resolve().parents[3]
BUNDLES = ("tests/old_bundle/E7", "docs/results/bundles/words_tiny")


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("imported") / "ledger.db"
    for name in BUNDLES:
        assert main(["import", str(REPO / f"{name}.jsonl.gz"), "--ledger", str(file)]) == 0
    return file


@pytest.fixture
def ledger(imported: Path) -> Ledger:
    return Ledger.open(imported)


def command(ledger: Ledger, name: str, **spec: object) -> str:
    sweep = sweep_of(name, ledger)
    assert sweep is not None
    sweep.spec.stored.update(spec)
    return str(still_open(sweep, ledger, None)["command"])


def test_a_table_with_a_number_of_seeds_is_given_more_of_them(ledger: Ledger) -> None:
    assert command(ledger, "E7@wiki_small").startswith("cse reproduce E7 --profile wiki_small --seeds ")


def test_a_table_with_looks_goes_on_to_its_last_one_and_no_further(ledger: Ledger) -> None:
    assert command(ledger, "E7@tiny") == "cse reproduce E7 --profile tiny --until decided --max-seeds 12"
    more = command(ledger, "E7@tiny", looks=[3, 5, 8, 16], margin=1.0)
    assert more == "cse reproduce E7 --profile tiny --until decided --max-seeds 16 --margin 1"


def test_a_table_all_of_whose_rows_are_decided_needs_no_command(ledger: Ledger) -> None:
    train(ledger, small("E7"), 3, lambda run: 60 + 20 * float(run.cell["method.dup_rate"]) + noise(run, 0.02))
    sweep = sweep_of("E7", ledger)
    assert sweep is not None
    said = still_open(sweep, ledger, None)
    assert (said["command"], said["open"]) == ("", []) and "undecided" not in said["headline"]
