"""Training corpora that papers name: where they are published, and how many rows the papers report."""

DATASETS = "https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse"
SNLI_MNLI = f"SNLI and MNLI, nli_for_simcse.csv of {DATASETS}"
CORPUS_SOURCES = {
    "file": f"wiki1m_for_simcse.txt of {DATASETS}, cse data get wiki1m",
    "documents": "OpenWebText, https://skylion007.github.io/OpenWebTextCorpus",
    "pairs:qqp": "Quora Question Pairs, https://quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
    "pairs:flickr30k": "Flickr30k, https://shannon.cs.illinois.edu/DenotationGraph",
    "pairs:paranmt": "ParaNMT-50M, https://www.cs.cmu.edu/~jwieting",
    "pairs:nli": SNLI_MNLI,
    "pairs:nli_anli": "ANLI, https://github.com/facebookresearch/anli",
}
"""Beginning of a corpus's name -> where its text is published; the longest match counts."""
PUBLISHED_ROWS = {
    "nli": 275_601,
    "pairs:qqp": 134_000,
    "pairs:flickr30k": 318_000,
    "pairs:paranmt": 5_000_000,
    "pairs:nli_entailment": 314_000,
    "pairs:nli_neutral": 314_000,
    "pairs:nli_contradiction": 314_000,
    "pairs:nli_all": 942_000,
    "pairs:nli_anli": 275_601 + 52_000,
}
"""Corpus -> number of rows as SimCSE prints them in thousands (Table 4); nli: the rows of nli_for_simcse.csv."""
SAMPLE = "_sample"
SAMPLE_ROWS = 134_000
"""Number of pairs of each set in the column "sample" of SimCSE's Table 4 (its caption)."""


def source_of(corpus: str) -> str | None:
    """Returns where a corpus is published; None where no paper names it."""
    names = [start for start in CORPUS_SOURCES if corpus.startswith(start)]
    return CORPUS_SOURCES[max(names, key=len)] if names else None


def count_printed_rows(corpus: str) -> int | None:
    """Returns the number of rows that papers print of a corpus, to count a corpus not at hand; None without one."""
    return SAMPLE_ROWS if corpus.startswith("pairs:") and corpus.endswith(SAMPLE) else PUBLISHED_ROWS.get(corpus)
