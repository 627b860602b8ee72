"""The data sets that `cse data` can download: addresses, licences, and the layout in which they are stored.

To add a data set, add an entry to `PUBLIC_SETS`. The addresses of one file are tried in order.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from cse.downloads import layout
from cse_train.fields import ConfigError, nearest

HUB = "hub:"
"""Prefix of an address on the Hugging Face hub."""
SIMCSE = f"{HUB}princeton-nlp/datasets-for-simcse/"
"""Address prefix of SimCSE's own data sets: https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse."""
SNLI, MULTINLI = "https://nlp.stanford.edu/projects/snli/", "https://cims.nyu.edu/~sbowman/multinli/"
SEEDS = "https://raw.githubusercontent.com/hppRC/simple-simcse/f9786c925557c3d9ef4fb704f04844bb111d1b7b/results/"
SEEDED = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")


@dataclass(frozen=True)
class Download:
    """One published file of a data set, with its addresses."""

    addresses: tuple[str, ...]
    """Addresses of the file, tried in order: `hub:OWNER/DATASET/FILE` for a data set of the hub, or http(s)."""
    kind: Literal["text", "csv", "archive"]
    """Expected kind of content: an HTML page, as a proxy may send in its place, is refused."""

    @property
    def name(self) -> str:
        """Returns the file's name, from its first address."""
        return self.addresses[0].rpartition("/")[2]


@dataclass(frozen=True)
class PublicSet:
    """A data set that `cse data get NAME` downloads."""

    name: str
    what: str
    licence: str
    megabytes: int
    """Approximate size of the download in megabytes."""
    downloads: tuple[Download, ...]
    make: layout.Make
    """Function that lays out the downloaded files, in the order of `downloads`, below the data folder."""


PUBLIC_SETS = (
    PublicSet(
        "wiki1m",
        "1,000,000 Wikipedia sentences, SimCSE's training text",
        "CC BY-SA (Wikipedia)",
        120,
        (Download((f"{SIMCSE}wiki1m_for_simcse.txt",), "text"),),
        partial(layout.copy, folder="wiki"),
    ),
    PublicSet(
        "sts",
        "STS12 to 16, the STS benchmark and SICK-R, as SentEval lays them out",
        "research use; SICK CC BY-NC-SA",
        60,
        (Download((f"{SIMCSE}senteval.tar",), "archive"),),
        partial(layout.unpack, folder="senteval/downstream", only=("STS", "SICK")),
    ),
    PublicSet(
        "senteval",
        "all of SentEval: the STS sets and the seven transfer tasks",
        "research use; each folder's own",
        60,
        (Download((f"{SIMCSE}senteval.tar",), "archive"),),
        partial(layout.unpack, folder="senteval/downstream"),
    ),
    PublicSet(
        "nli",
        "275,601 triplets of SNLI and MultiNLI, supervised SimCSE's training text",
        "SNLI CC BY-SA 4.0; MultiNLI OANC and others",
        70,
        (Download((f"{SIMCSE}nli_for_simcse.csv",), "csv"),),
        partial(layout.copy, folder="nli"),
    ),
    PublicSet(
        "snli",
        "SNLI with labels, its three splits",
        "CC BY-SA 4.0",
        95,
        (Download((f"{SNLI}snli_1.0.zip",), "archive"),),
        layout.split_snli,
    ),
    PublicSet(
        "nli_labels",
        "SNLI and MultiNLI with labels, the training text of SBERT and InferSent",
        "SNLI CC BY-SA 4.0; MultiNLI OANC and others",
        320,
        (
            Download((f"{SNLI}snli_1.0.zip",), "archive"),
            Download((f"{MULTINLI}multinli_1.0.zip",), "archive"),
        ),
        layout.write_labelled_pairs,
    ),
    PublicSet(
        "glove",
        "GloVe 840B, 300 numbers a word",
        "PDDL",
        2180,
        (
            Download(
                (
                    "https://nlp.stanford.edu/data/glove.840B.300d.zip",
                    "https://huggingface.co/stanfordnlp/glove/resolve/main/glove.840B.300d.zip",
                ),
                "archive",
            ),
        ),
        partial(layout.unpack, folder="vectors", only=("glove.840B.300d.txt",)),
    ),
    PublicSet(
        "simcse_seeds",
        "fifty seeds of SimCSE on each of four encoders, by another implementation",
        "MIT (hppRC/simple-simcse)",
        1,
        tuple(Download((f"{SEEDS}{encoder}.csv",), "csv") for encoder in SEEDED),
        partial(layout.copy, folder="public_runs/simple_simcse"),
    ),
)


def find_sets(names: list[str]) -> list[PublicSet]:
    """Returns the named data sets; `all` means every one. Raises ConfigError for an unknown name."""
    if "all" in names:
        return list(PUBLIC_SETS)
    table = {data_set.name: data_set for data_set in PUBLIC_SETS}
    if unknown := [name for name in names if name not in table]:
        raise ConfigError([f"unknown data set: name={name}; {nearest(name, [*table, 'all'])}" for name in unknown])
    return [table[name] for name in dict.fromkeys(names)]
