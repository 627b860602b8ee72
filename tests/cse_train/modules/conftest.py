"""Small transformers models with weights far from their start, and ragged sentences for them."""

import pytest
import torch
from transformers import BertConfig, BertModel, PretrainedConfig, PreTrainedModel, RobertaConfig, RobertaModel

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


def make_config(kind: str, layers: int = 3, **changed: object) -> PretrainedConfig:
    if kind == "bert":
        return BertConfig(**SIZES | {"num_hidden_layers": layers, "pad_token_id": 0} | changed)
    return RobertaConfig(**SIZES | {"num_hidden_layers": layers, "pad_token_id": 1, "type_vocab_size": 1} | changed)


def stir(model: torch.nn.Module, seed: int = 0) -> None:
    """Move every parameter, biases and LayerNorm included, so that a forgotten one shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)


def make_peer(config: PretrainedConfig) -> PreTrainedModel:
    """transformers' own model without pooler, in eval mode, with eager attention."""
    kind = BertModel if config.model_type == "bert" else RobertaModel
    config._attn_implementation = "eager"
    model = kind(config, add_pooling_layer=False)
    stir(model)
    return model.eval()


def padded(sentences: list[list[int]], pad: int) -> dict[str, torch.Tensor]:
    width = max(map(len, sentences))
    ids = torch.tensor([s + [pad] * (width - len(s)) for s in sentences])
    mask = torch.tensor([[1] * len(s) + [0] * (width - len(s)) for s in sentences])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.fixture
def sentences() -> list[list[int]]:
    """Eleven ragged sentences of 3-30 tokens, two of one length."""
    generator = torch.Generator().manual_seed(1)
    lengths = [7, 30, 3, 12, 12, 5, 21, 9, 4, 17, 28]
    return [[2, *torch.randint(5, 97, (n - 2,), generator=generator).tolist(), 3] for n in lengths]


@pytest.fixture(params=["bert", "roberta"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def config_of():
    return make_config


@pytest.fixture
def peer_of():
    return make_peer


@pytest.fixture
def pad():
    return padded


@pytest.fixture
def stirred():
    return stir
