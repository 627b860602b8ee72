"""What is no encoder of texts, or lacks what a setting reads, is said in one line before a step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, BertConfig, CLIPConfig, PreTrainedTokenizerFast, ViTConfig

from cse_train import methods
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.identity import backbone_identity, generator_hash, load_tokenizer
from cse_train.evaluate.models import open_model
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from tests.cse_train.encoders import SIZES, tokenizer_of, write_encoder
from tests.cse_train.zoo.kinds import SAVINGS
from tests.cse_train.zoo.pieces import make_tokenizer

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
VIT = {**SMALL, "image_size": 8, "patch_size": 4}


def change_config(folder: Path, **changed: Any) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf8"))
    (folder / "config.json").write_text(json.dumps(config | changed), encoding="utf8")


def write_images(folder: Path) -> None:
    AutoModel.from_config(ViTConfig(**VIT)).save_pretrained(folder)


def write_images_beside_texts(folder: Path) -> None:
    AutoModel.from_config(CLIPConfig(text_config={**SMALL, "vocab_size": 64}, vision_config=VIT)).save_pretrained(
        folder
    )
    tokenizer_of().save_pretrained(folder)


def write_adapter(folder: Path) -> None:
    folder.mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 4}
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf8")
    save_file({"base_model.model.lora_A.weight": torch.zeros(4, 8)}, folder / "adapter_model.safetensors")


def write_quantised(folder: Path) -> None:
    change_config(write_encoder(folder, "bert"), quantization_config={"quant_method": "bitsandbytes"})


def write_with_code(folder: Path) -> None:
    change_config(write_encoder(folder, "bert"), model_type="mine", auto_map={"AutoModel": "modeling_mine.Mine"})
    (folder / "modeling_mine.py").write_text("raise SystemExit('this was run')\n")


def write_relative_positions(folder: Path) -> None:
    change_config(write_encoder(folder, "bert"), position_embedding_type="relative_key_query")


def write_without_padding(folder: Path) -> None:
    change_config(write_encoder(folder, "roberta", pad_token_id=1), pad_token_id=None)


def write_integers(folder: Path) -> None:
    tensors = load_file(write_encoder(folder, "bert") / "model.safetensors")
    packed = {name: (t.to(torch.int8) if t.ndim > 1 else t) for name, t in tensors.items()}
    save_file(packed, folder / "model.safetensors", {"format": "pt"})


def write_larger_tokenizer(folder: Path) -> None:
    tokenizer = tokenizer_of()
    tokenizer.add_tokens([f"new{at}" for at in range(60)])
    write_encoder(folder, "bert", tokenizer)


def write_without_tokenizer(folder: Path) -> None:
    AutoModel.from_config(BertConfig(**SIZES)).save_pretrained(folder)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "images": (write_images, "^no encoder of texts: .* a vit, reads pixel_values; choose a text model"),
    "images and texts": (write_images_beside_texts, "^no encoder of texts: .* a clip, has a vision_config beside"),
    "adapter": (write_adapter, "^an adapter: .* changes org/base .*; merge the two"),
    "quantised": (write_quantised, "^quantised weights: .* by bitsandbytes; give the model as it was before"),
    "code": (write_with_code, "^code of its own: .* is a mine, which transformers lacks, and .* is never run; choose"),
    "relative positions": (write_relative_positions, "^relative positions: .*=relative_key_query, which transformers "),
    "no padding": (write_without_padding, "^impossible config: .*pad_token_id=None, give the ID of its padding, "),
    "integers": (
        write_integers,
        r"^quantised weights: .* has whole numbers in \d+ tensors, such as embeddings\.",
    ),
    "no tokenizer": (write_without_tokenizer, "^missing tokenizer: .*; put its tokenizer.json into the folder"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_encoder_is_refused_by_a_plan_and_by_a_run(what: str, tmp_path: Path) -> None:
    write, line = REFUSED[what]
    write(tmp_path / "model")
    for read in (load_backbone, backbone_identity, lambda name: open_model(Path(name), pooler="mean")):
        with pytest.raises(ConfigError, match=line) as caught:
            read(str(tmp_path / "model"))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize(("kind", "saved"), [*(("bert", saving) for saving in SAVINGS), ("electra", "whole")])
def test_weights_that_are_no_numbers_are_refused_by_a_plan_and_a_run_and_not_blamed_on_the_rate(
    kind: str, saved: str, number: float, tmp_path: Path
) -> None:
    folder = write_encoder(tmp_path / kind, kind)
    model = AutoModel.from_pretrained(folder)
    model.encoder.layer[1].output.dense.weight.data[0, 0] = number
    (folder / "model.safetensors").unlink()
    SAVINGS[saved](model, folder)
    place = "train.encoder=.* has NaN or infinite weights in 1 tensors, such as encoder.layer.1.output.dense.weight"
    for read in (backbone_identity, load_backbone, lambda name: open_model(Path(name), pooler="mean")):
        with pytest.raises(ConfigError, match=f"^not finite: {place}; fetch the model again, or give") as caught:
            read(str(folder))
        assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="^not finite: method.generator="):
        generator_hash(str(folder))


def test_a_tokenizer_with_more_pieces_than_the_encoder_has_rows_is_refused_by_the_plan(tmp_path: Path) -> None:
    write_larger_tokenizer(tmp_path / "m")
    for read in (backbone_identity, lambda name: open_model(Path(name), pooler="mean")):
        with pytest.raises(ConfigError, match="^wrong tokenizer: .*: the tokenizer has 94 pieces, config.json vocab_s"):
            read(str(tmp_path / "m"))


def test_what_is_no_folder_of_an_encoder_is_told_where_one_lies(tmp_path: Path) -> None:
    write_encoder(tmp_path / "st" / "0_Transformer", "bert")
    file = tmp_path / "st" / "0_Transformer" / "model.safetensors"
    for place, line in (
        (tmp_path / "st", "needs .*, as its 0_Transformer has: give that one$"),
        (file, "is a file; give"),
    ):
        for read in (backbone_identity, load_backbone):
            with pytest.raises(ConfigError, match=f"^not an? .*: train.encoder={place}.* {line}"):
                read(str(place))


def test_infinities_of_a_mask_beside_the_weights_are_none_of_theirs(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "bert", "bert")
    tensors = load_file(folder / "model.safetensors") | {"attention_mask": torch.full((4, 4), -torch.inf).triu(1)}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert load_backbone(str(folder)).content_hash == backbone_identity(str(folder))[0]


def test_a_config_that_its_own_architecture_cannot_run_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_encoder(tmp_path / "m", "mpnet", pad_token_id=1, max_position_embeddings=66)
    change_config(folder, relative_attention_num_buckets=1)
    with pytest.raises(ConfigError) as caught:
        load_backbone(str(folder))
    assert "\n" not in str(caught.value)


@pytest.fixture
def without_mask(tmp_path: Path) -> Path:
    """A BERT whose tokenizer has no [MASK] and no [PAD], as its files say."""
    tokenizer = tokenizer_of()
    bare = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    return write_encoder(tmp_path / "bert", "bert", bare)


NEEDS_MASK = {
    "promptbert": {},
    "mirrorbert": {"masking": "intended"},
    "esimcse": {"extension": "mask"},
}


@pytest.mark.parametrize("method", NEEDS_MASK)
def test_a_method_that_writes_masks_names_what_lacks(method: str, without_mask: Path) -> None:
    tokenizer = load_tokenizer(without_mask)
    options = methods.config_class(method)(**NEEDS_MASK[method])
    with pytest.raises(ConfigError, match=r"^no mask token: method\.\w+.* writes it into texts, .*; choose an encoder"):
        load_method(method).make_collate(options, tokenizer, 16)


def test_padding_that_lacks_is_another_token_in_memory_alone(without_mask: Path) -> None:
    before = (without_mask / "tokenizer_config.json").read_bytes()
    tokenizer = load_tokenizer(without_mask)
    assert tokenizer.pad_token == "[SEP]" and tokenizer("the river")["input_ids"][-1] == tokenizer.pad_token_id
    assert (without_mask / "tokenizer_config.json").read_bytes() == before
    assert backbone_identity(str(without_mask))[1] == load_backbone(str(without_mask)).tokenizer_hash


def strip_tokenizer(folder: Path) -> Path:
    """An encoder's folder without what its tokenizer is made of."""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    return folder


def test_a_vocabulary_alone_is_a_tokenizer_as_its_maker_meant_it(tmp_path: Path) -> None:
    tokenizer = make_tokenizer("bert")
    folder = strip_tokenizer(write_encoder(tmp_path / "m", "bert", tokenizer, vocab_size=len(tokenizer)))
    words = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf8")
    read = load_tokenizer(folder)
    assert read.model_max_length > 1e20
    for text in ("The old Bridge", "winter music 77"):
        assert read(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert open_model(folder, pooler="cls_no_mlp", max_length=64).embed([" ".join(words)]).shape == (1, 32)


BARE = {
    "slow alone": ("esm", "vocab.txt", "^slow tokenizer: EsmTokenizer has no fast form; save one with tokenizer.json"),
    "a config alone": ("bert", "tokenizer_config.json", "^missing tokenizer: .* has special tokens alone; put its t"),
}


@pytest.mark.parametrize("what", BARE)
def test_a_tokenizer_that_cannot_be_used_is_refused_with_what_to_put_there(what: str, tmp_path: Path) -> None:
    kind, name, line = BARE[what]
    changed = {"position_embedding_type": "rotary", "mask_token_id": 4} if kind == "esm" else {}
    folder = strip_tokenizer(write_encoder(tmp_path / "m", kind, **changed))
    content = "{}" if name.endswith("json") else "\n".join(["<cls>", "<pad>", "<eos>", "<unk>", *"LAGV", "<mask>"])
    (folder / name).write_text(content, encoding="utf8")
    for read in (load_backbone, backbone_identity):
        with pytest.raises(ConfigError, match=line) as caught:
            read(str(folder))
        assert "\n" not in str(caught.value)
