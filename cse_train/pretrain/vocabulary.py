"""The WordPiece vocabulary that all miniatures share, trained so that the same text gives the same ids.

The `tokenizers` trainer leaves three things to the order of a hash table: which of the equally rare characters make
the alphabet, the ids of the `##` characters, and through them every tie between merges. Here all three are fixed.
"""

from collections import Counter
from collections.abc import Iterable

from tokenizers import Tokenizer
from tokenizers.implementations import BertWordPieceTokenizer
from transformers import BertTokenizerFast

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ALPHABET = 400
"""Characters kept; any other is [UNK]."""


def train_vocabulary(sentences: Iterable[str], size: int = 8192) -> BertTokenizerFast:
    """A lower-casing BERT tokenizer with at most `size` pieces."""
    words = _words(sentences)
    alphabet, continued = _alphabet(words)
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(
        _repeated(words),
        vocab_size=size,
        min_frequency=2,
        limit_alphabet=ALPHABET,
        initial_alphabet=alphabet,
        special_tokens=[*SPECIAL, *(f"##{letter}" for letter in continued)],
        show_progress=False,
    )
    plain: Tokenizer = BertWordPieceTokenizer(trained.get_vocab(), lowercase=True)._tokenizer
    return BertTokenizerFast(tokenizer_object=plain, do_lower_case=True, model_max_length=512)


def _words(sentences: Iterable[str]) -> Counter[str]:
    """How often each word occurs after BERT's normalisation and splitting at punctuation."""
    bert = BertWordPieceTokenizer(lowercase=True)._tokenizer
    chunks: Counter[str] = Counter()
    for sentence in sentences:
        chunks.update(bert.normalizer.normalize_str(sentence).split())
    words: Counter[str] = Counter()
    for chunk, count in chunks.items():
        for word, _ in bert.pre_tokenizer.pre_tokenize_str(chunk):
            words[word] += count
    return words


def _alphabet(words: Counter[str]) -> tuple[list[str], list[str]]:
    """The most frequent characters, ties by code point; and those of them that continue a word. Both sorted."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            counts[letter] += count
    kept = sorted(sorted(counts, key=lambda letter: (-counts[letter], letter))[:ALPHABET])
    continuing = {letter for word in words for letter in word[1:]}
    return kept, [letter for letter in kept if letter in continuing]


def _repeated(words: Counter[str]) -> Iterable[str]:
    """The words as running text: the trainer counts them again."""
    for word in sorted(words):
        left = words[word]
        while left > 0:
            yield " ".join([word] * min(left, 10_000))
            left -= 10_000
