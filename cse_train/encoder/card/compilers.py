"""Whether kernels can be made for a card on this machine."""

import importlib.util
import os
import shutil


def find_lacking() -> str:
    """What torch.compile and Triton's kernels need and do not find; empty where all is there."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton"
    compilers = (os.environ.get("CC"), "cc", "gcc", "clang")
    return "" if any(name and shutil.which(name) for name in compilers) else "a C compiler"
