"""What a profile says of one encoder or objective, and substitutions of one method alone."""

import pytest

from cse_train.fields import ConfigError
from search_spaces.catalog import load_space
from search_spaces.cells import resolve
from search_spaces.profiles import Profile, Recipe, load_profile

SPACE = """version: 1
id: T
cells:
  - {label: one, set: {method: simcse, train.encoder: large}}
  - {label: two, set: {method: simcse, train.encoder: base}}
  - {label: three, set: {method: declutr, train.encoder: base}}
"""
RECIPES = (
    Recipe({"method": "simcse"}, {"train.batch_size": 128, "train.dropout": 0.2}),
    Recipe({"method": "simcse", "train.encoder": "large"}, {"train.batch_size": 512}),
)


def cells(folder, profile, **overrides):
    (folder / "T.yaml").write_text(SPACE)
    return resolve(load_space(folder / "T.yaml"), profile, overrides).cells()


def test_the_later_recipe_and_the_command_line_win(tmp_path):
    profile = Profile("p", {"train.batch_size": 64}, recipes=RECIPES)
    assert [cell.run(0).train.batch_size for cell in cells(tmp_path, profile)] == [512, 128, 64]
    assert [cell.run(0).train.dropout for cell in cells(tmp_path, profile)] == [0.2, 0.2, None]
    narrowed = cells(tmp_path, profile, **{"train.batch_size": 32})
    assert {cell.run(0).train.batch_size for cell in narrowed} == {32}


def test_an_axis_wins_over_a_recipe(tmp_path):
    profile = Profile("p", recipes=(Recipe({"method": "simcse"}, {"train.encoder": "other"}),))
    assert [cell.run(0).train.encoder for cell in cells(tmp_path, profile)] == ["large", "base", "base"]


def test_a_substitution_of_one_method_goes_before_the_shared_one(tmp_path):
    by_method = {"declutr": {"train.encoder": {"base": "words-l4-h128"}}}
    profile = Profile("p", substitutions={"train.encoder": {"base": None}, **by_method})
    runs = [(cell.label, cell.run(0).train.encoder) for cell in cells(tmp_path, profile)]
    assert runs == [("one", "large"), ("three", "words-l4-h128")]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("recipes: {when: {method: simcse}}", "wrong recipe: recipes="),
        ("recipes: [{when: {train.encoder: a}, set: {}}]", "wrong recipe: recipes="),
        ("recipes: [{when: {method: simcse}, set: {train.batch_siz: 3}}]", "unknown key: train.batch_siz=3"),
        ("recipes: [{when: {method: simcse}, set: {method.dup_rate: 0.3}}]", "key of another method"),
        ("substitutions: {declutr: [a]}", "wrong type: substitutions"),
        ("substitutions: {declutr: {train.encoder: [a]}}", "wrong type: substitutions=['a']"),
        ("methods: {simcse: 3}", "wrong type: methods={'simcse': 3}; give a mapping"),
        ("extends: smal", "unknown profile: extends=smal; did you mean small?"),
        ("extends: mine.yaml", "unknown profile: extends=mine.yaml; "),
        ("extends: [small]", "wrong type: extends=['small']; give a shipped profile such as small"),
        ("title: null", "wrong type: title=None; give text"),
        ("substitutions: {declutr: {method.dup_rate: {a: 0.1}}}", "key of another method"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, text, problem):
    (tmp_path / "p.yaml").write_text(f"version: 1\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        load_profile(str(tmp_path / "p.yaml"))
    (line,) = caught.value.problems
    assert problem in line and "\n" not in line


def test_supervised_dcpcse_has_the_released_settings():
    """README at 662112e: 12 prompts for BERT, 10 for RoBERTa, batches of 256 and 512, the pooler cls."""
    names = ("method.prompt_length", "train.batch_size", "train.learning_rate", "method.pooler", "method.mlm_weight")
    found = {}
    for table in ("C2", "C3", "C6"):
        for cell in resolve(load_space(table), "paper").cells():
            flat = cell.flat
            if flat["method"] == "dcpcse" and flat["method.objective"] == "triplets":
                found[table, flat["train.encoder"]] = [flat[name] for name in names]
    bert = [12, 256, 1e-2, "cls", None]
    assert found == {(table, "bert-base-uncased"): bert for table in ("C2", "C3", "C6")} | {
        ("C6", "roberta-base"): [10, 512, 1e-2, "cls", None]
    }


def test_declutr_has_the_released_optimiser_and_the_laptop_the_one_of_its_rates():
    (paper,), (small,) = (
        {cell.flat["train.adamw"] for cell in resolve(load_space("L3"), p).cells()} for p in ("paper", "small")
    )
    assert (paper, small) == ("uncorrected", "torch")
    assert {cell.flat["train.adamw"] for cell in resolve(load_space("E7"), "paper").cells()} == {"transformers"}


OPTIMISERS = {
    "flow": {"learning_rate": 1e-3, "adam_epsilon": 1e-6, "weight_decay": 0.01, "adamw": "uncorrected_bert"},
    "isbert": {"learning_rate": 2e-6, "adam_epsilon": 1e-7, "weight_decay": 0.01, "adamw": "uncorrected"},
    "consert": {"learning_rate": 5e-7, "adam_epsilon": 1e-6, "weight_decay": 0.01, "adamw": "uncorrected"},
    "sgopt": {"learning_rate": 5e-5, "adam_epsilon": 1e-6, "weight_decay": 0.01, "adamw": "transformers"},
    "ct": {"learning_rate": 1e-5, "adam_epsilon": 1e-7, "weight_decay": 0.0, "adamw": "uncorrected"},
    "sbert": {"learning_rate": 2e-5, "adam_epsilon": 1e-6, "weight_decay": 0.01, "adamw": "uncorrected"},
    "mirrorbert": {"learning_rate": 2e-5, "adam_epsilon": 1e-8, "weight_decay": 0.01, "adamw": "torch"},
    "promptbert": {"learning_rate": 1e-5, "adam_epsilon": 1e-8, "weight_decay": 0.0, "adamw": "transformers"},
}
"""The releases' (their files and lines stand in paper.yaml)."""
SCHEDULES = {
    "flow": ("constant", 0.0, "all", 1.0),
    "isbert": ("linear", 0.1, "matrices", 1.0),
    "consert": ("linear", 0.1, "matrices", 1.0),
    "sgopt": ("linear", 0.1, "matrices", 1.0),
    "ct": ("five_steps", 0.0, "matrices", None),
    "sbert": ("linear", 0.1, "matrices", 1.0),
    "mirrorbert": ("constant", 0.0, "all", None),
    "promptbert": ("linear", 0.0, "matrices", 1.0),
}
"""Schedule, warm-up, what decays, clipping."""


@pytest.mark.parametrize("table", ["C1", "D1", "E2", "S8", "S9"])
def test_the_systems_of_others_have_their_releases_optimisers(table):
    seen = {cell.flat["method"]: cell.flat for cell in resolve(load_space(table), "paper").cells()}
    for method in OPTIMISERS.keys() & seen.keys():
        flat = seen[method]
        assert {name: flat[f"train.{name}"] for name in OPTIMISERS[method]} == OPTIMISERS[method], method
        names = ("schedule", "warmup_ratio", "decay_on", "max_grad_norm")
        assert tuple(flat[f"train.{name}"] for name in names) == SCHEDULES[method], method


def test_sg_opt_reads_all_splits_and_lengths_count_what_the_releases_add():
    settings = load_profile("paper").settings
    assert settings("sgopt")["train.examples"] == 2 * (5749 + 1500 + 1379)
    lengths = {method: settings(method)["train.max_seq_length"] for method in ("consert", "isbert", "sgopt", "sbert")}
    assert lengths == {"consert": 64 + 3, "isbert": 128 + 3, "sgopt": 128 + 3, "sbert": 128 + 2}


def test_supervised_rows_get_the_papers_settings():
    rows = resolve(load_space("C4"), "paper").cells()
    settings = ("train.learning_rate", "train.batch_size", "method.prompt_length")
    values = {row.key["method.objective"]: [row.run(0).flat()[name] for name in settings] for row in rows}
    assert values == {"unsupervised": [0.021, 144, 16], "triplets": [0.055, 256, 12]}


def test_a_profile_is_laid_over_the_one_that_it_extends(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "version: 1\nextends: small\ntrain: {examples: 640}\n"
        "methods: {d2cse: {train.learning_rate: 0.2}}\n"
        "substitutions: {train.encoder: {roberta-base: words-l2-h128}, d2cse: {train.examples: {'1000000': 320}}}\n"
        "recipes: [{when: {method: simcse}, set: {train.dropout: 0.2}}]\n"
    )
    mine, small = load_profile(str(tmp_path / "mine.yaml")), load_profile("small")
    assert mine.name == "mine"
    assert mine.train == {**small.train, "train.examples": 640}
    assert mine.methods == {**small.methods, "d2cse": {**small.methods["d2cse"], "train.learning_rate": 0.2}}
    assert mine.substitution("train.encoder", "roberta-base", "simcse") == "words-l2-h128"
    assert mine.substitution("train.encoder", "bert-base-uncased", "simcse") == "words-l4-h128"
    assert mine.substitution("train.examples", 1000000, "d2cse") == 320
    assert mine.substitution("train.examples", 2000000, "d2cse") == 25600
    assert mine.recipes == (*small.recipes, Recipe({"method": "simcse"}, {"train.dropout": 0.2}))


def test_a_file_may_have_the_name_of_the_profile_that_it_extends(tmp_path):
    (tmp_path / "small.yaml").write_text("version: 1\nextends: small\ntrain: {examples: 640}\n")
    mine = load_profile(str(tmp_path / "small.yaml"))
    assert mine.train == {**load_profile("small").train, "train.examples": 640}
