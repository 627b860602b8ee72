"""The step of SimCSE in bf16 (`benchmarks.step.gpu`), an item a size and batch; `--compiled`: under torch.compile.

Compiled, each contender is an item and stands beside itself as it is; where time is short the last items are missing.
"""

import sys
from functools import partial

from benchmarks.gpu.results import Done, called
from benchmarks.step.gpu import FULL, GRAPHED, OURS, PADDED, PEERS, Setting, compiled, lacking, measure, peak_of
from benchmarks.step.setting import SIZES, Size

SMALL = Size(4, 128, 2, 64, 0.0, 0.0)
"""The encoder that small runs start from."""
TINY = Size(2, 32, 2, 4, 0.0, 0.0)
ITEMS = ((SIZES["base"], 64), (SMALL, 64), (SIZES["base"], 512))
SECONDS = 30.0
"""Most seconds of an item's rounds."""
COMPILED = [(SMALL, 64, who) for who in (PADDED, GRAPHED, *PEERS)]
COMPILED += [(SIZES["base"], 64, who) for who in (PADDED, *PEERS)]
COMPILED += [(SMALL, 64, OURS)]
"""Ours as it is comes last: its batches differ in shape, and the compiler gives up after eight of them."""


def measured(size: Size, batch: int, setting: Setting, peak: float | None) -> Done:
    return measure(size, batch, setting, peak)


def under_the_compiler(size: Size, batch: int, who: str, setting: Setting) -> Done:
    """Measures a contender under torch.compile; a peer without its packages gives a line that names them."""
    if who in PEERS and (gone := lacking(who)):
        return [f"{size.name}, {who}: not run, {', '.join(gone)} cannot be imported"], {}
    return compiled(size, batch, who, setting), {}


def main() -> None:
    compiling = "--compiled" in sys.argv
    if compiling:
        sys.argv.remove("--compiled")
    call = called(__doc__)
    import torch

    card = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    setting = Setting("cuda" if card else "cpu", 20, 9, 2, SECONDS)
    items, compilations = list(ITEMS), list(COMPILED)
    if call.quick:
        setting = Setting(setting.device, 2, 2, 1, compiler="inductor" if card else "aot_eager")
        items, compilations = [(TINY, 4)], [(TINY, 4, FULL)]
    if compiling:
        for size, batch, who in compilations:
            call.results.do(f"{size.name} B {batch} {who}", partial(under_the_compiler, size, batch, who, setting))
        return
    peak = peak_of(card) if card else None
    for size, batch in items:
        call.results.do(f"{size.name} B {batch}", partial(measured, size, batch, setting, peak))


if __name__ == "__main__":
    main()
