"""Tokenizers as the makers of encoders use them, trained on a few made-up sentences."""

import functools
from dataclasses import dataclass

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

WORDS = (
    "river stone bridge old market town winter letter music garden road light glass field summer house the in of"
).split()
LINES = [" ".join(WORDS[(at * 7 + j * j) % len(WORDS)] for j in range(3 + at % 9)) + f" {at}" for at in range(60)]
PIECES = 150


@dataclass(frozen=True)
class Style:
    """What stands around a text, and which tokens there are."""

    model: str
    """wordpiece, cased, bytes or unigram."""
    special: tuple[str, ...]
    """In the order of their ids."""
    form: str = "$A"
    names: tuple[tuple[str, str], ...] = ()
    """Role -> token."""


def _roles(names: str, tokens: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((f"{name}_token", token) for name, token in zip(names.split(), tokens, strict=True))


BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FAIRSEQ = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
BERT_ROLES = _roles("pad unk cls sep mask", BERT)
FAIRSEQ_ROLES = _roles("bos pad eos unk mask cls sep", (*FAIRSEQ, "<s>", "</s>"))
QWEN = ("<|endoftext|>", "<|im_end|>")
GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
STYLES = {
    "bert": Style("wordpiece", BERT, "[CLS] $A [SEP]", BERT_ROLES),
    "bert-cased": Style("cased", BERT, "[CLS] $A [SEP]", BERT_ROLES),
    "unigram-bert": Style("unigram", BERT, "[CLS] $A [SEP]", BERT_ROLES),
    "roberta": Style("bytes", FAIRSEQ, "<s> $A </s>", FAIRSEQ_ROLES),
    "xlm-roberta": Style("unigram", FAIRSEQ, "<s> $A </s>", FAIRSEQ_ROLES),
    "t5": Style("unigram", ("<pad>", "</s>", "<unk>"), "$A </s>", _roles("pad eos unk", ("<pad>", "</s>", "<unk>"))),
    "gpt2": Style("bytes", QWEN[:1], "$A", _roles("bos eos unk", QWEN[:1] * 3)),
    "qwen": Style("bytes", QWEN, "$A", _roles("pad eos", QWEN)),
    "qwen-embedding": Style("bytes", QWEN, "$A <|endoftext|>", _roles("pad eos", QWEN)),
    "llama": Style("unigram", ("<unk>", "<s>", "</s>"), "<s> $A", _roles("unk bos eos", ("<unk>", "<s>", "</s>"))),
    "gemma": Style("unigram", GEMMA, "<bos> $A", _roles("pad eos bos unk mask", GEMMA)),
    "bare": Style("wordpiece", ("[UNK]",), "$A", _roles("unk", ("[UNK]",))),
}


@functools.cache
def train_tokenizer(style: str) -> str:
    """The state of a style's tokenizer, as JSON."""
    made = STYLES[style]
    special = list(made.special)
    unknown = dict(made.names).get("unk_token", special[0])
    if made.model in ("wordpiece", "cased"):
        tokenizer = Tokenizer(models.WordPiece(unk_token=unknown))
        tokenizer.normalizer, tokenizer.pre_tokenizer = (
            normalizers.BertNormalizer(lowercase=made.model == "wordpiece"),
            pre_tokenizers.BertPreTokenizer(),
        )
        tokenizer.decoder = decoders.WordPiece()
        trainer: object = trainers.WordPieceTrainer(vocab_size=PIECES, special_tokens=special, show_progress=False)
    elif made.model == "bytes":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=PIECES + 256, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=PIECES, special_tokens=special, unk_token=unknown, show_progress=False
        )
    tokenizer.train_from_iterator(LINES, trainer=trainer)
    if made.form != "$A":
        marks = [(token, tokenizer.token_to_id(token)) for token in special if token in made.form]
        tokenizer.post_processor = processors.TemplateProcessing(single=made.form, special_tokens=marks)
    return tokenizer.to_str()


def make_tokenizer(style: str) -> PreTrainedTokenizerFast:
    """A tokenizer of a style, with its roles."""
    state = Tokenizer.from_str(train_tokenizer(style))
    return PreTrainedTokenizerFast(tokenizer_object=state, **dict(STYLES[style].names))
