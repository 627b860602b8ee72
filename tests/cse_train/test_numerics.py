"""Which library multiplies; and large blocks come from the heap, which stays with the process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_train import numerics
from cse_train.numerics import CAST, ONEDNN, ROUNDED, TORCH, keep_freed_memory


def test_a_large_block_lies_in_the_heap() -> None:
    """64 MB is above the largest block that glibc ever keeps by itself."""
    if not keep_freed_memory():
        pytest.skip("the C library has no mallopt: only glibc has")
    block = torch.empty(16 * 2**20)
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [(int(end, 16) for end in line[0].split("-")) for line in lines if line[-1] == "[heap]"]
    assert any(first <= block.data_ptr() < last for first, last in spans)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, and a process that has measured nothing."""
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))
    numerics.gemm_rates.cache_clear()
    yield tmp_path / "products.json"
    numerics.gemm_rates.cache_clear()


@pytest.mark.parametrize("damage", [None, "{", "[1]", 3, {"torch": 5.0}, {"torch": None}, {"torch": -1.0}])
def test_rates_are_measured_once_for_a_machine(cache: Path, damage: Any) -> None:
    """A file that is damaged, or that another version wrote, is as good as none."""
    if damage is not None:
        cache.write_text(damage if isinstance(damage, str) else json.dumps({numerics.machine(): damage}))
    threads = torch.get_num_threads()
    rates = numerics.gemm_rates()
    assert torch.get_num_threads() == threads
    paths = {TORCH, CAST} if numerics.multiplies_bf16() else {TORCH}
    assert rates[TORCH] > 0 and paths < rates.keys() <= paths | {ONEDNN, ROUNDED}
    numerics.gemm_rates.cache_clear()
    kept = {key: dict.fromkeys(rates, 1.0) for key in json.loads(cache.read_text())}
    cache.write_text(json.dumps(kept))
    assert set(numerics.gemm_rates().values()) == {1.0}


@pytest.mark.parametrize(
    ("rates", "fp32", "bf16"),
    [
        ({TORCH: 100, ONEDNN: 180, CAST: 190}, ONEDNN, ONEDNN),
        ({TORCH: 100, ONEDNN: 100, CAST: 196}, ONEDNN, CAST),
        ({TORCH: 120, ONEDNN: 100, CAST: 50}, TORCH, TORCH),
        ({TORCH: 160, ROUNDED: 700, CAST: 720}, TORCH, ROUNDED),
        ({TORCH: 160, ROUNDED: 300, CAST: 720}, TORCH, CAST),
        ({TORCH: 10}, TORCH, TORCH),
    ],
)
def test_the_fastest_path_is_taken(
    rates: dict[str, float], fp32: str, bf16: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fp32 path is one of exact ones; of two that are within a tenth the usual one is taken."""
    monkeypatch.setattr(numerics, "gemm_rates", lambda: rates)
    assert (numerics.fp32_path(), numerics.bf16_path()) == (fp32, bf16)
    with numerics.fast_fp32() as fast:
        assert fast == (fp32 == ONEDNN)


@pytest.mark.parametrize("able", [True, False])
def test_a_cpu_without_bf16_products_computes_in_fp32(able: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bf16 products take 40 times as long, or fail; a card has its own."""
    monkeypatch.setattr(numerics, "multiplies_bf16", lambda: able)
    assert (CAST in numerics._paths()) == able
    with numerics.autocast(torch.device("cpu"), "bf16"):
        assert torch.is_autocast_enabled("cpu") == able
    with numerics.autocast(torch.device("cpu"), "fp32"):
        assert not torch.is_autocast_enabled("cpu")
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype, enabled: (kind, enabled))
    assert numerics.autocast(torch.device("cuda"), "bf16") == ("cuda", True)


def test_processors_of_one_name_have_rates_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Machines that share a cache folder: a hypervisor calls every generation "AMD EPYC"."""
    monkeypatch.setattr(numerics, "Path", lambda _: tmp_path / "cpuinfo")
    found = set()
    for model in (1, 17):
        core = f"vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: {model}\nmodel name\t: AMD EPYC\n\n"
        (tmp_path / "cpuinfo").write_text(core * 2)
        found.add(numerics.machine())
    assert len(found) == 2 and all(said.startswith("AMD EPYC 25 ") for said in found)
