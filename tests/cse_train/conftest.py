"""A tiny random encoder with the shipped vocabulary, and a small corpus with a dev set, both made on the spot."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer BERT with a masked-LM head, random weights, in transformers' layout."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    import cse_train

    folder = tmp_path_factory.mktemp("tiny-encoder")
    tokenizer = AutoTokenizer.from_pretrained(Path(cse_train.__file__).parent / "weights" / "tokenizer")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
