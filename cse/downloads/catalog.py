"""The data sets that `cse data` knows: where they are published, under which terms, and what is made of them.

A new one is an entry of `PUBLIC_SETS`. Addresses of one file are tried in their order.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from cse.downloads import layout
from cse_train.fields import ConfigError, nearest

HUB = "hub:"
"""Begins an address on the hub."""
SIMCSE = f"{HUB}princeton-nlp/datasets-for-simcse/"
"""What SimCSE's own scripts fetch: https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse."""
SNLI, MULTINLI = "https://nlp.stanford.edu/projects/snli/", "https://cims.nyu.edu/~sbowman/multinli/"
SEEDS = "https://raw.githubusercontent.com/hppRC/simple-simcse/f9786c925557c3d9ef4fb704f04844bb111d1b7b/results/"
SEEDED = ("bert-base-uncased", "bert-large-uncased", "roberta-base", "roberta-large")


@dataclass(frozen=True)
class Download:
    """One published file."""

    addresses: tuple[str, ...]
    """`hub:OWNER/DATASET/FILE` of the hub's data sets, or an http(s) address; the next where one fails."""
    kind: Literal["text", "csv", "archive"]
    """What its first bytes must look like: a proxy's page of HTML is none of them."""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.addresses[0].rpartition("/")[2]


@dataclass(frozen=True)
class PublicSet:
    """What one name fetches."""

    name: str
    what: str
    licence: str
    megabytes: int
    """Of the download, about."""
    downloads: tuple[Download, ...]
    make: layout.Make
    """Lays out what was fetched, in the order of `downloads`, below the folder of data."""


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
    """The sets of these names, `all` for every one; raises ConfigError for a name that is none."""
    if "all" in names:
        return list(PUBLIC_SETS)
    table = {data_set.name: data_set for data_set in PUBLIC_SETS}
    if unknown := [name for name in names if name not in table]:
        raise ConfigError([f"unknown data set: name={name}; {nearest(name, [*table, 'all'])}" for name in unknown])
    return [table[name] for name in dict.fromkeys(names)]
