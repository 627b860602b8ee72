"""A tiny random encoder with the shipped vocabulary, and a small corpus, both made on the spot."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, MODEL_MAPPING, PretrainedConfig, PreTrainedModel

from cse_train import methods
from cse_train.checkpoint import save_best
from cse_train.config import RunConfig, TrainConfig
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.methods.base import load_method
from cse_train.text.file_corpora import LABELLED_COLUMNS, NLI_LABELS, PAIR_COLUMNS
from cse_train.training.loop import Session

OWN_SETTINGS: dict[str, dict[str, object]] = {
    "declutr": {
        "method.min_length": 1,
        "method.max_length": 2,
        "method.short_documents": "adapt",
        "method.mlm_probability": 0.5,
    },
    "d2cse": {"method.generator": "words-l1-h64"},
    "diffcse": {"method.generator": "words-l1-h64", "method.generator_dropout": False},
    "flow": {"method.width": 8, "method.depth": 2},
    "whitening": {"method.dimensions": 4},
    "sgopt": {"method.projection_width": 48},
    "infersent": {
        "train.encoder": str(Path(__file__).with_name("programs") / "word_vectors.txt"),
        "method.units": 16,
        "method.hidden": 8,
    },
}
"""What single methods need to work on a few lines of a few words and with the weights at hand."""
WORDS = "river stone bridge old market town winter letter music garden road light glass field summer house".split()


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer BERT with a masked-LM head in transformers' layout, weights spread wide so that gradients are too."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    import cse_train

    folder = tmp_path_factory.mktemp("tiny-encoder")
    tokenizer = AutoTokenizer.from_pretrained(Path(cse_train.__file__).parent / "weights" / "words-l1-h64")
    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
        pad_token_id=tokenizer.pad_token_id,
    )
    BertForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 short made-up lines of different lengths."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    lines = [" ".join(WORDS[(i * 7 + j * j) % 16] for j in range(3 + i % 9)) + f" {i}" for i in range(40)]
    path.write_text("\n".join(lines), encoding="utf8")
    return path


@pytest.fixture(scope="session")
def triplets_file(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """The same lines as sent0, sent1, hard_neg."""
    path = tmp_path_factory.mktemp("triplets") / "triplets.csv"
    lines = text_file.read_text(encoding="utf8").split("\n")
    rows = [f'"{a}","{b}","{c}"' for a, b, c in zip(lines, lines[1:], lines[2:], strict=False)]
    path.write_text("\n".join(["sent0,sent1,hard_neg", *rows]), encoding="utf8")
    return path


@pytest.fixture(scope="session")
def labelled_file(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """The same lines as sent0, sent1, label."""
    path = tmp_path_factory.mktemp("labelled") / "labelled.csv"
    lines = text_file.read_text(encoding="utf8").split("\n")
    rows = [f'"{a}","{b}",{NLI_LABELS[i * i % 7 % 3]}' for i, (a, b) in enumerate(itertools.pairwise(lines))]
    path.write_text("\n".join(["sent0,sent1,label", *rows]), encoding="utf8")
    return path


@pytest.fixture(scope="session")
def tiny_paths(text_file: Path, triplets_file: Path, labelled_file: Path) -> Callable[[str], DataPaths]:
    """Method -> the file that it reads by its own settings."""
    files = {("text",): text_file, (): text_file, PAIR_COLUMNS: triplets_file, LABELLED_COLUMNS: labelled_file}

    def paths(method: str) -> DataPaths:
        columns = load_method(method).columns
        return DataPaths(train_file=files[columns(methods.config_class(method)())])

    return paths


@pytest.fixture(scope="session")
def tiny_settings(tiny_encoder: Path) -> Callable[..., dict]:
    """Dotted keys of a run of 20 steps on the text file, the dev set generated; `train_seed=1` sets train.seed."""

    def settings(method: str, **changes: object) -> dict:
        flat: dict[str, object] = {
            "method": method,
            "train.encoder": str(tiny_encoder),
            "train.corpus": "file",
            "train.dev": "generated_dev:40",
            "train.batch_size": 8,
            "train.examples": 160,
            "train.evaluations": 20,
            "train.max_seq_length": 16,
            "train.learning_rate": 1e-3,
        }
        flat |= OWN_SETTINGS.get(method, {})
        return flat | {key.replace("_", ".", 1): value for key, value in changes.items()}

    return settings


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The updates that this process trains, by their step: a run that goes on begins behind its checkpoint.

    Losses cannot tell: a run that begins again gives the same.
    """
    trained: list[int] = []
    update = Session.update

    def noted(session: Session) -> dict[str, torch.Tensor]:
        trained.append(session.step)
        return update(session)

    monkeypatch.setattr(Session, "update", noted)
    return trained


@pytest.fixture(scope="session")
def ten_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dictionary of our own in the format of WordNet's files; nothing in it is WordNet's."""
    folder = tmp_path_factory.mktemp("ten-words")
    synsets = {
        "data.noun": [
            "00000001 17 n 03 river 0 stream 1 watercourse 0 001 @ 00000002 n 0000 | water that flows",
            "00000002 06 n 03 road 0 route 0 main_route 0 000 | a way",
            "00000003 27 n 02 in 0 indium 0 000 | a metal",
        ],
        "data.verb": [],
        "data.adj": ["00000005 00 a 02 old 0 aged(a) 0 000 | not new"],
        "data.adv": [],
    }
    for name, lines in synsets.items():
        (folder / name).write_text("\n".join(["  1 The licence stands here.  ", *lines, ""]))
    return folder


@pytest.fixture(scope="session")
def random_encoder(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Callable[[str], Path]:
    """Model type -> random weights far from zero in transformers' layout, with the shipped tokenizer; 64 positions."""
    import torch
    from transformers import (
        AutoModel,
        AutoTokenizer,
        BertConfig,
        DistilBertConfig,
        GPT2Config,
        PreTrainedTokenizerFast,
        Qwen3Config,
        RobertaConfig,
    )

    shared = {"vocab_size": 26_298, "num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 32}
    sizes = {**shared, "intermediate_size": 48}
    configs = {
        "bert": lambda: BertConfig(max_position_embeddings=64, pad_token_id=0, **sizes),
        "roberta": lambda: RobertaConfig(max_position_embeddings=66, pad_token_id=1, type_vocab_size=1, **sizes),
        "distilbert": lambda: DistilBertConfig(max_position_embeddings=64, hidden_dim=48, **shared),
        "gpt2": lambda: GPT2Config(max_position_embeddings=64, n_inner=48, pad_token_id=0, **shared),
        "qwen3": lambda: Qwen3Config(
            max_position_embeddings=64, head_dim=8, num_key_value_heads=2, pad_token_id=0, **sizes
        ),
    }
    root = tmp_path_factory.mktemp("random-encoders")

    def make(kind: str) -> Path:
        folder = root / kind
        if not folder.exists():
            torch.manual_seed(3)
            model = AutoModel.from_config(configs[kind]())
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.1)
            model.save_pretrained(folder)
            tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
            if kind in ("gpt2", "qwen3"):  # without token types, padded in front
                tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_encoder, padding_side="left")
            tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def checkpoint(tmp_path: Path, random_encoder: Callable[[str], Path]) -> Callable[..., tuple[Path, Any]]:
    """(method, encoder, options) -> best folder and module; what training would have moved is moved at random."""
    import torch

    def make(
        method: str = "simcse", encoder: str = "bert", dev: str = "generated_dev:20", **options: object
    ) -> tuple[Path, Any]:
        known = encoder if encoder.startswith("words-") else str(random_encoder(encoder))
        train = TrainConfig(encoder=known, dev=dev, dev_max_length=64)
        run = RunConfig(method=method, train=train, options=methods.config_class(method)(**options))
        model = load_method(method).build(run.options, load_backbone(known), training=False).eval()
        generator = torch.Generator().manual_seed(5)
        for name, tensor in model.state_dict().items():
            if not name.startswith(("encoder.", "prompted.encoder.")) and tensor.is_floating_point():
                noise = torch.rand(tensor.shape, generator=generator)
                tensor.copy_(noise + 1.5 if "running_var" in name else tensor + (noise - 0.5) * 0.4)
        save_best(tmp_path / "run", run, model, {"best": 12.345, "best_examples": 640})
        return tmp_path / "run" / "best", model

    return make


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
    special = {"pad_token_id": 0} if kind == "bert" else {"pad_token_id": 1, "type_vocab_size": 1}
    return CONFIG_MAPPING[kind](**SIZES | {"num_hidden_layers": layers} | special | changed)


def stir(model: torch.nn.Module, seed: int = 0) -> None:
    """Move every parameter, biases and LayerNorm included, so that a forgotten one shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)


def make_peer(config: PretrainedConfig) -> PreTrainedModel:
    """transformers' own model without pooler, in eval mode, with eager attention."""
    config._attn_implementation = "eager"
    model = MODEL_MAPPING[type(config)](config, add_pooling_layer=False)
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
