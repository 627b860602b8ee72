"""Encoders that are shipped no more: the line for a setting that names one, and what an old run of one is opened with.

Ledgers, bundles and run folders of before name them, and are read as they were.
"""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

SHAPES = {"wiki-l1-h64": (1, 64), "wiki-l2-h128": (2, 128), "wiki-l4-h128": (4, 128)}
"""Name of a BERT that is shipped no more -> (layers, width); its vocabulary is that of `weights/tokenizer`."""
FIRST_GENERATOR = "wiki-l1-h64"
"""Default of SimCSE's and ESimCSE's option `generator`, which few of their runs read.

The signature of every run that reads none holds this name, so it stays: any other would train all of them again. A run
that fills words names an encoder that is shipped, and gets the line below where it does not.
"""
GONE = "gone encoder: "


def find_gone(setting: str, name: str) -> str | None:
    """Returns a line for a setting that names an encoder which is shipped no more; None for any other name."""
    if name not in SHAPES:
        return None
    heir = name.replace("wiki-", "words-")
    return f"{GONE}{setting}={name} is shipped no more; give {heir}, which stands in its place"


@functools.cache
def write_empty(name: str, tokenizer: Path) -> Path:
    """Returns a folder with configuration and tokenizer of a gone encoder, and weights that are all 0.

    It lasts as long as the process. A run's best model has every weight, and needs the folder for the rest.
    """
    from transformers import BertConfig, BertForMaskedLM

    layers, width = SHAPES[name]
    folder = Path(tempfile.mkdtemp(prefix="cse-gone-")) / name
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    sizes = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 4 * width,
    }
    model = BertForMaskedLM(BertConfig(vocab_size=8192, pad_token_id=0, **sizes))
    for parameter in model.parameters():
        parameter.data.zero_()
    model.save_pretrained(folder)
    shutil.copytree(tokenizer, folder, dirs_exist_ok=True)
    return folder
