"""The zoo: architectures of transformers in folders as people bring them, random weights and a tokenizer of its style.

A line adds one; what differs from `SIZES` and `NAMED` stands in it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import CONFIG_MAPPING, AutoModel, BertForMaskedLM, FunnelModel, PreTrainedModel, T5EncoderModel

from tests.cse_train.encoders import NAMED, SIZES
from tests.cse_train.zoo.pieces import STYLES, make_tokenizer


def _save_pickled(model: PreTrainedModel, folder: Path) -> None:
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")


SAVINGS: Mapping[str, Callable[[PreTrainedModel, Path], object]] = {
    "whole": lambda model, folder: model.save_pretrained(folder),
    "sharded": lambda model, folder: model.save_pretrained(folder, max_shard_size="20KB"),
    "pickled": _save_pickled,
    "half": lambda model, folder: model.half().save_pretrained(folder),
}


class Kind(NamedTuple):
    """How a folder is made, and what of it is refused: a pattern of the one line."""

    model_type: str
    style: str
    changed: Mapping[str, Any] = {}
    made: Callable[[Any], PreTrainedModel] = AutoModel.from_config
    saved: str = "whole"
    first: bool = True
    """Whether position 0 is a text's."""
    noise: bool = True
    """Whether its own dropout tells two views apart."""
    dropout: bool = True
    """Whether it can have any."""
    refused: str = ""
    hf: str = ""
    modules: str = ""
    """Of the exports."""


T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
BART = {
    "d_model": 32,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 48),
}
SWITCH = {**T5, "num_experts": 2}
XLM = {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "pad_index": 1}
XLNET = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
NEO = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
FUNNEL = {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48}
BEHIND = {"max_position_embeddings": 66}
"""Of positions that begin behind the padding's."""
APART = {"relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "type_vocab_size": 0}
V3 = {"position_buckets": 32, "norm_rel_ebd": "layer_norm", "share_att_key": True}
ESM = {"mask_token_id": 4, "position_embedding_type": "rotary", "emb_layer_norm_before": False}
XMOD = {"default_language": "en_XX", "languages": ["en_XX"]}
PAIRED = {"num_key_value_heads": 2, "head_dim": 8}
SLIDING = {**PAIRED, "sliding_window": 8}
LAYERED = {**SLIDING, "layer_types": ["sliding_attention", "full_attention"]}
LOCAL = {"global_attn_every_n_layers": 2, "local_attention": 16}
HF = r"^not exportable: format=hf, .*AutoModel reads a \w+ as an encoder-decoder; use --format sentence-transformers$"
INSIDE = r"^not exportable: .*, the encoder inside a \w+, has no class of its own in transformers; use cse eval or "
PADDED = (
    r"^not exportable: .*, a \w+: in transformers the padding of a batch reaches its texts; use cse eval or cse embed$"
)
PADDED_ONLY = {"hf": PADDED, "modules": PADDED}
INSIDE_ONLY = {"hf": INSIDE, "modules": INSIDE}
CAUSAL = {"first": False}
STILL = {"noise": False}
LARGE = {**CAUSAL, **STILL}


def _without_pooler(config: Any) -> PreTrainedModel:
    model: PreTrainedModel = AutoModel.from_config(config, add_pooling_layer=False)
    return model


KINDS: dict[str, Kind] = {
    "bert": Kind("bert", "bert"),
    "bert cased": Kind("bert", "bert-cased"),
    "bert sharded": Kind("bert", "bert", saved="sharded"),
    "bert pickled": Kind("bert", "bert", saved="pickled"),
    "bert half": Kind("bert", "bert", saved="half"),
    "bert spare rows": Kind("bert", "bert", {"spare": 37}),
    "bert without pooler": Kind("bert", "bert", made=_without_pooler),
    "bert with head": Kind("bert", "bert", made=BertForMaskedLM),
    "bert decoder": Kind("bert", "bert", {"is_decoder": True}, **CAUSAL),
    "roberta": Kind("roberta", "roberta", BEHIND),
    "albert": Kind("albert", "unigram-bert", **STILL),
    "electra": Kind("electra", "bert"),
    "distilbert": Kind("distilbert", "bert"),
    "mpnet": Kind("mpnet", "roberta", BEHIND),
    "deberta": Kind("deberta", "roberta", APART),
    "deberta-v2": Kind("deberta-v2", "unigram-bert", APART),
    "deberta-v3": Kind("deberta-v2", "unigram-bert", {**APART, **V3}),
    "modernbert": Kind("modernbert", "bert", LOCAL, **STILL),
    "nomic_bert": Kind("nomic_bert", "bert", **STILL),
    "eurobert": Kind("eurobert", "llama", PAIRED, **STILL),
    "gte": Kind("gte", "bert"),
    "jina_embeddings_v3": Kind("jina_embeddings_v3", "xlm-roberta"),
    "xlm-roberta": Kind("xlm-roberta", "xlm-roberta", BEHIND),
    "xlm-roberta-xl": Kind("xlm-roberta-xl", "xlm-roberta", BEHIND),
    "camembert": Kind("camembert", "xlm-roberta", BEHIND),
    "xmod": Kind("xmod", "xlm-roberta", {**BEHIND, **XMOD}),
    "data2vec-text": Kind("data2vec-text", "roberta", BEHIND),
    "roberta-prelayernorm": Kind("roberta-prelayernorm", "roberta", BEHIND),
    "ibert": Kind("ibert", "roberta", BEHIND),
    "convbert": Kind("convbert", "bert", {"embedding_size": 32, "conv_kernel_size": 3}, **PADDED_ONLY),
    "big_bird": Kind("big_bird", "xlm-roberta"),
    "longformer": Kind("longformer", "roberta", {**BEHIND, "attention_window": 8}),
    "fnet": Kind("fnet", "unigram-bert", **PADDED_ONLY),
    "funnel": Kind("funnel", "bert", FUNNEL, made=FunnelModel, refused=".* another length or width "),
    "nystromformer": Kind("nystromformer", "unigram-bert", {"num_landmarks": 8}, refused="^no encoder of texts: "),
    "yoso": Kind("yoso", "roberta", {"use_expectation": True}, **PADDED_ONLY),
    "megatron-bert": Kind("megatron-bert", "bert"),
    "mobilebert": Kind("mobilebert", "bert", {"embedding_size": 16, "intra_bottleneck_size": 16}, **PADDED_ONLY),
    "squeezebert": Kind("squeezebert", "bert", {"embedding_size": 32}),
    "rembert": Kind("rembert", "unigram-bert", {"input_embedding_size": 16, "output_embedding_size": 16}, **STILL),
    "roformer": Kind("roformer", "bert", {"embedding_size": 32}),
    "roc_bert": Kind("roc_bert", "bert", {"pronunciation_vocab_size": 8, "shape_vocab_size": 8}),
    "ernie": Kind("ernie", "bert"),
    "esm": Kind("esm", "bert", ESM),
    "layoutlm": Kind("layoutlm", "bert"),
    "luke": Kind("luke", "roberta", {**BEHIND, "entity_vocab_size": 8, "entity_emb_size": 16}),
    "flaubert": Kind("flaubert", "roberta", XLM),
    "xlm": Kind("xlm", "roberta", XLM),
    "xlnet": Kind("xlnet", "unigram-bert", XLNET),
    "bert-generation": Kind("bert-generation", "xlm-roberta"),
    "t5": Kind("t5", "t5", T5, hf=HF, **CAUSAL),
    "t5 encoder": Kind("t5", "t5", T5, made=T5EncoderModel, hf=HF, **CAUSAL),
    "mt5": Kind("mt5", "t5", T5, hf=HF, **CAUSAL),
    "umt5": Kind("umt5", "t5", T5, hf=HF, **CAUSAL),
    "longt5": Kind("longt5", "t5", {**T5, "local_radius": 7}, hf=HF, **CAUSAL),
    "switch_transformers": Kind("switch_transformers", "t5", SWITCH, hf=HF, **CAUSAL),
    "bart": Kind("bart", "roberta", BART, **INSIDE_ONLY),
    "mbart": Kind("mbart", "xlm-roberta", BART, **INSIDE_ONLY),
    "pegasus": Kind("pegasus", "t5", BART, **INSIDE_ONLY, **CAUSAL),
    "marian": Kind("marian", "t5", BART, **INSIDE_ONLY, **CAUSAL),
    "m2m_100": Kind("m2m_100", "xlm-roberta", BART, **INSIDE_ONLY),
    "gpt2": Kind("gpt2", "gpt2", **CAUSAL),
    "gpt_neo": Kind("gpt_neo", "gpt2", NEO, **LARGE),
    "gpt_neox": Kind("gpt_neox", "gpt2", **LARGE),
    "gptj": Kind("gptj", "gpt2", {**GPT, "rotary_dim": 4}, **LARGE),
    "opt": Kind("opt", "gpt2", **CAUSAL),
    "bloom": Kind("bloom", "qwen", **LARGE),
    "llama": Kind("llama", "llama", **LARGE),
    "mistral": Kind("mistral", "llama", **LARGE),
    "mixtral": Kind("mixtral", "llama", {"num_local_experts": 2, **PAIRED}, **LARGE),
    "qwen2": Kind("qwen2", "qwen", **LARGE),
    "qwen3": Kind("qwen3", "qwen-embedding", **LARGE),
    "gemma": Kind("gemma", "gemma", **LARGE),
    "gemma2": Kind("gemma2", "gemma", SLIDING, **LARGE),
    "gemma3": Kind("gemma3_text", "gemma", LAYERED, **LARGE),
    "gemma3 both ways": Kind("gemma3_text", "gemma", {**SLIDING, "use_bidirectional_attention": True}, **STILL),
    "phi": Kind("phi", "gpt2", **LARGE),
    "phi3": Kind("phi3", "llama", {"num_key_value_heads": 2, "pad_token_id": 2}, **LARGE),
    "falcon": Kind("falcon", "gpt2", **LARGE),
    "mamba": Kind("mamba", "gpt2", {"state_size": 4}, dropout=False, **LARGE),
    "stablelm": Kind("stablelm", "gpt2", {"num_key_value_heads": 4}, **LARGE),
    "granite": Kind("granite", "gpt2", {"num_key_value_heads": 4}, **LARGE),
    "cohere": Kind("cohere", "llama", **LARGE),
    "smollm3": Kind("smollm3", "llama", {"num_key_value_heads": 2, "pad_token_id": 2}, **LARGE),
    "modernbert-decoder": Kind("modernbert-decoder", "bert", LOCAL, **LARGE),
    "openai-gpt": Kind("openai-gpt", "bare", GPT, **CAUSAL),
    "codegen": Kind("codegen", "gpt2", {**GPT, "rotary_dim": 4}, **LARGE),
}  # fmt: skip
FIXED = {"funnel": ("num_hidden_layers",), "xlnet": ("max_position_embeddings",)}
"""What an architecture works out for itself."""


def write_kind(folder: Path, name: str) -> Path:
    """A folder of the zoo: every parameter is moved, so that a forgotten one shows."""
    kind = KINDS[name]
    tokenizer = make_tokenizer(kind.style)
    roles = {f"{role}_id": tokenizer.convert_tokens_to_ids(token) for role, token in STYLES[kind.style].names}
    sizes = {**SIZES, **NAMED.get(kind.model_type, {}), "pad_token_id": None, **roles, **kind.changed}
    sizes["vocab_size"] = len(tokenizer) + sizes.pop("spare", 0)
    for field in FIXED.get(kind.model_type, ()):
        del sizes[field]
    torch.manual_seed(3)
    model = kind.made(CONFIG_MAPPING[kind.model_type](**sizes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    SAVINGS[kind.saved](model, folder)
    tokenizer.save_pretrained(folder)
    return folder
