"""T20, T21: prompts of their own in every layer, and the one file that travels with them."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig

from cse_train.encoder import prompted_transformer
from cse_train.encoder.encoder import ContinuousPrompts, Encoder, PromptedEncoder, require_positions
from cse_train.encoder.packing import pack_lists
from cse_train.encoder.transformers_io import encoder_from_transformers
from cse_train.export.export import export
from cse_train.fields import ConfigError


@pytest.fixture
def encoder(kind, config_of, peer_of) -> Encoder:
    peer = peer_of(config_of(kind, 3))
    return encoder_from_transformers(peer.state_dict(), peer.config).eval()


def prompted(encoder: Encoder, length: int = 5, cls_id: int | None = None, **options: bool) -> PromptedEncoder:
    torch.manual_seed(2)
    model = PromptedEncoder(encoder, ContinuousPrompts(encoder.config, length, **options), cls_id).eval()
    with torch.no_grad():
        model.prompts.weight.mul_(30)
    return model


def test_T20_weights_are_small_normal_draws_in_every_layer(config_of) -> None:
    prompts = ContinuousPrompts(config_of("bert", 3), 200)
    assert prompts.weight.shape == (3, 2, 200, 32) and prompts.weight.dtype == torch.float32
    torch.testing.assert_close(prompts.weight.std((2, 3)), torch.full((3, 2), 0.02), atol=1e-3, rtol=0)


def test_T20_a_prompts_vector_is_cut_into_heads_as_the_encoders_are(config_of) -> None:
    prompts = ContinuousPrompts(config_of("bert", 3), 5).eval()
    key, value = prompts.keys_values(1, rows=7)
    assert key.shape == value.shape == (7, 4, 5, 8)
    for head in range(4):
        at = slice(8 * head, 8 * head + 8)
        assert torch.equal(key[3, head], prompts.weight[1, 0, :, at])
        assert torch.equal(value[3, head], prompts.weight[1, 1, :, at])


def test_T20_dropout_is_drawn_for_each_sequence_layer_and_part(config_of) -> None:
    prompts = ContinuousPrompts(config_of("bert", 3, hidden_dropout_prob=0.3), 20).train()
    parts = torch.stack([torch.stack(prompts.keys_values(layer, rows=6)) for layer in range(3)])
    gone = (parts == 0).flatten(0, 2).flatten(1)
    assert len({tuple(row) for row in gone.tolist()}) == 3 * 2 * 6
    assert abs(gone.float().mean() - 0.3) < 0.02
    kept = parts.mean(2) * (1 - 0.3) * 6 / (parts != 0).sum(2).clamp(min=1)
    expected = prompts.weight.view(3, 2, 20, 4, 8).transpose(2, 3) * (kept != 0)
    torch.testing.assert_close(kept, expected)


@pytest.mark.parametrize("training", [True, False])
def test_T20_prompt_dropout_is_an_option_and_off_in_evaluation(config_of, training: bool) -> None:
    prompts = ContinuousPrompts(config_of("bert", 3, hidden_dropout_prob=0.3), 20, dropout=not training)
    key, _ = prompts.train(training).keys_values(0, rows=6)
    assert torch.equal(key, key[:1].expand_as(key)) and (key != 0).all()


def test_T20_output_has_the_tokens_positions_and_depends_on_every_layers_prompts(encoder, sentences) -> None:
    model, packed = prompted(encoder), pack_lists(sentences)
    hidden = model(packed, views=2, tokens=True)
    assert len(hidden.last_TH) == 2 * len(packed.ids_T)
    before = hidden.cls_VNH
    for layer in range(3):
        for part in range(2):
            model.prompts.weight.data[layer, part].mul_(-1)
            after = model(packed, views=2).cls_VNH
            assert (after - before).abs().max() > 1e-3, (layer, part)
            before = after


@pytest.mark.parametrize("shift", [True, False])
def test_T20_no_prompts_equal_the_frozen_encoder(encoder, sentences, shift: bool) -> None:
    packed = pack_lists(sentences)
    without = prompted(encoder, 0, shift=shift)(packed).cls_VNH
    torch.testing.assert_close(without, encoder(packed).cls_VNH, atol=2e-6, rtol=0)


def test_T6_padding_does_not_matter_with_prompts(encoder, sentences) -> None:
    model = prompted(encoder)
    hidden = model(pack_lists(sentences, groups=1), tokens=True)
    together = hidden.mean_VNH(hidden.last_TH)[0]
    alone = [model(pack_lists([ids]), tokens=True).last_TH.mean(0) for ids in sentences]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=1e-5)


def test_T20_positions_shift_by_the_number_of_prompts_as_an_option(encoder, sentences) -> None:
    packed = pack_lists(sentences)
    shifted, unshifted = (prompted(encoder, shift=shift)(packed).cls_VNH for shift in (True, False))
    assert (shifted - unshifted).abs().max() > 1e-2
    table = encoder.position.weight.data.clone()
    encoder.position.weight.data[:-5] = table[5:]
    torch.testing.assert_close(prompted(encoder, shift=False)(packed).cls_VNH, shifted)


def test_cls_prompt_starts_as_the_words_embedding_and_trains(encoder, sentences) -> None:
    packed = pack_lists(sentences)
    model = prompted(encoder, cls_id=2)
    assert torch.equal(model(packed).cls_VNH, prompted(encoder)(packed).cls_VNH), "sentences begin with id 2"
    model(packed).cls_VNH.square().sum().backward()
    assert model.cls_word.grad.abs().max() > 0
    model.cls_word.data.mul_(-1)
    assert (model(packed).cls_VNH - prompted(encoder)(packed).cls_VNH).abs().max() > 1e-3


def test_T21_only_prompts_train_and_the_encoders_dropout_stays_on(encoder, sentences) -> None:
    model = prompted(encoder, cls_id=2, dropout=False).train()
    assert {n for n, p in model.named_parameters() if p.requires_grad} == {"prompts.weight", "cls_word"}
    packed = pack_lists(sentences)
    assert not torch.equal(model(packed).cls_VNH, model(packed).cls_VNH)


@pytest.mark.parametrize(("tokens", "fits"), [(35, True), (36, False)])
def test_prompts_that_overflow_positions_are_named(config_of, tokens: int, fits: bool) -> None:
    """40 positions; RoBERTa's two reserved ones are not for tokens."""
    for kind, length in (("bert", 5), ("roberta", 3)):
        line = rf"^prompts overflow positions: method.prompt_length={length} and 36"
        encoder = Encoder(config_of(kind, 1))
        require_positions(encoder, length, False, 40)
        if fits:
            require_positions(encoder, length, True, tokens)
        else:
            with pytest.raises(ConfigError, match=line):
                require_positions(encoder, length, True, tokens)


def test_prompts_longer_than_the_positions_are_refused_at_once(config_of) -> None:
    encoder = Encoder(config_of("bert", 1))
    with pytest.raises(ConfigError, match="prompt_length=40 and 1 tokens, of 40"):
        PromptedEncoder(encoder, ContinuousPrompts(encoder.config, 40))


def test_T20_base_size_has_294912_prompt_parameters() -> None:
    with torch.device("meta"):
        config = BertConfig()
        model = PromptedEncoder(Encoder(config), ContinuousPrompts(config, 16), cls_id=101)
    assert model.prompts.weight.numel() == 16 * 24 * 768 == 294_912
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 294_912 + 768


TEXTS = ["A short one.", "", "Rain fell over the river all night.", "market " * 60]
OPTIONS = {"pooler": "first_last", "cls_prompt": True, "prompt_length": 3}


def loaded(folder: Path):
    library = pytest.importorskip("sentence_transformers", reason="pip install 'cse-search[sentence-transformers]'")
    return library.SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)


def test_it_imports_torch_transformers_and_what_comes_with_them() -> None:
    nodes = list(ast.walk(ast.parse(Path(prompted_transformer.__file__).read_text(encoding="utf8"))))
    froms = {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert (froms | names) - set(sys.stdlib_module_names) == {"torch", "transformers", "safetensors"}


def test_the_folder_holds_one_python_file_and_no_model_without_prompts(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.py")] == [
        "prompted_transformer.py"
    ]
    assert not (tmp_path / "out" / "config.json").exists(), "AutoModel would take the bare encoder for the model"


def test_saved_by_the_library_it_loads_again(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    model = loaded(tmp_path / "out")
    model.save(str(tmp_path / "again"))
    np.testing.assert_allclose(loaded(tmp_path / "again").encode(TEXTS), model.encode(TEXTS), atol=1e-6, rtol=0)


def test_a_text_prompt_goes_in_front(checkpoint, tmp_path) -> None:
    best, _ = checkpoint("dcpcse", pooler="mean")
    export(best, tmp_path / "out")
    model = loaded(tmp_path / "out")
    np.testing.assert_allclose(model.encode(["river"], prompt="old "), model.encode(["old river"]), atol=1e-6, rtol=0)


def test_prompts_and_their_positions_matter(checkpoint, tmp_path) -> None:
    """Without the shift, or without the [CLS] prompt, the embeddings are others: neither is ignored."""
    import json

    best, _ = checkpoint("d2cse", **OPTIONS)
    export(best, tmp_path / "out")
    settings = tmp_path / "out" / "0_PromptedTransformer" / "prompts.json"
    known = json.loads(settings.read_text(encoding="utf8"))
    before = loaded(tmp_path / "out").encode(TEXTS)
    for change in ({"position_shift": False}, {"cls_prompt": False}):
        settings.write_text(json.dumps(known | change), encoding="utf8")
        assert np.abs(loaded(tmp_path / "out").encode(TEXTS) - before).max() > 1e-3
