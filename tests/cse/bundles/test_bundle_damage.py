"""Damaged and poisoned bundles: refused in clean lines, or taken over with the same records."""

import pytest

from tests.cse.bundles.damaged_bundles import bundle_readers, sound_bundle
from tests.damage.boundaries import Boundary, show, sound_ledger
from tests.damage.tries import FEW, MANY, by_name, try_many

NAMES = ("bundle", "bundle, unpacked", "bundle's header", "bundle's records", "bundle, deep", "bundle, bombs")


@pytest.fixture(scope="module")
def boundaries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Boundary]:
    folder = tmp_path_factory.mktemp("sound")
    ledger = sound_ledger(folder)
    sound = sound_bundle(folder, ledger)
    ledger.close()
    return by_name([Boundary(*parts) for parts in bundle_readers(sound, show)], NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_refused_in_clean_lines(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_damaged_files(boundaries: dict[str, Boundary], name: str, capsys) -> None:
    try_many(boundaries[name], MANY)
