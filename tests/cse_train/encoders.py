"""Small encoders of any architecture, random weights and a tokenizer of a few words, as transformers writes them."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CONFIG_MAPPING, AutoModel, PreTrainedTokenizerFast

WORDS = "river stone bridge old market town winter letter music garden road light glass field summer house the in of"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
NAMED: dict[str, dict[str, Any]] = {
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
    "electra": {"embedding_size": 16},
    "albert": {"embedding_size": 16},
    "deberta-v2": {"type_vocab_size": 1},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    "modernbert": {"global_attn_every_n_layers": 1, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "bloom": {"n_layer": 2, "n_head": 4},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    **{kind: {"num_key_value_heads": 2, "head_dim": 8} for kind in ("qwen3", "qwen2", "llama", "gemma", "mistral")},
}
"""What an architecture calls its sizes, or wants beside them."""
CAUSAL = ("gpt2", "qwen3", "mistral", "llama", "gemma", "opt", "bloom")


def tokenizer_of(first: str | None = "[CLS]", last: str | None = "[SEP]", **kept: Any) -> PreTrainedTokenizerFast:
    """Words of `WORDS` between a first and a last token; None puts none there."""
    ids = {word: at for at, word in enumerate((*SPECIAL, *WORDS.split(), *(str(n) for n in range(10))))}
    tokenizer = Tokenizer(models.WordLevel(ids, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    form = " ".join(filter(None, (first, "$A", last)))
    marks = [(mark, ids[mark]) for mark in filter(None, (first, last))]
    tokenizer.post_processor = processors.TemplateProcessing(single=form, special_tokens=marks)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    given = {"cls_token": first, "sep_token": last}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names, **{k: v for k, v in given.items() if v}, **kept)


def write_encoder(folder: Path, kind: str, tokenizer: PreTrainedTokenizerFast | None = None, **changed: Any) -> Path:
    """A folder with an encoder of a model type, whose parameters are all moved, and its tokenizer."""
    torch.manual_seed(3)
    model = AutoModel.from_config(CONFIG_MAPPING[kind](**{**SIZES, **NAMED.get(kind, {}), **changed}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    (tokenizer or tokenizer_of()).save_pretrained(folder)
    return folder


Make = Callable[..., Path]


def maker(root: Path) -> Make:
    """`write_encoder` into a new folder each time."""
    count = itertools.count()
    return lambda kind, *given, **changed: write_encoder(root / f"{kind}-{next(count)}", kind, *given, **changed)
