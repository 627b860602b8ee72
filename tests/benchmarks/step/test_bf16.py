"""The table of the bf16 step."""

from benchmarks.paired import Seconds
from benchmarks.step.bf16 import OURS, OURS_FP32, rows
from benchmarks.step.setting import SIZES


def test_our_fp32_and_the_peers_have_bars_of_their_own() -> None:
    times = {
        name: [Seconds(ms / 1e3, ms / 1e3)] * 3 for name, ms in ((OURS, 10), (OURS_FP32, 17), ("hf", 19), ("st", 21))
    }
    ours, fp32, trainer, other = rows(SIZES["mini"], 64, times)
    assert ours.startswith("| L4 H256 | 64 | ours | 10.0 | 10.0 | 1 | 1 |")
    assert fp32.endswith("| 1.70 [1.70, 1.70] | 1.70 | 1.5 | held |")
    assert "HF Trainer" in trainer and trainer.endswith("| 1.90 | 2 | MISSED |")
    assert other.endswith("| 2.10 | 2 | held |")
