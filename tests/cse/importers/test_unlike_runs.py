"""Two runs that differ in something that an importer does not read are two cells, or a line names the difference."""

import json
import pickle
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest

from cse.cli.app import main
from cse.importers.seeds import split_seed
from cse.importers.sources import trainer
from tests.commands import printed
from tests.cse.importers.test_folders import write_project, write_result, write_state

Import = Callable[..., tuple[dict[str, tuple[float, int]], list[str]]]


@pytest.fixture
def take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Import:
    """The cells after an import, each name with its mean and number of seeds, and the lines that it printed."""

    def taken(
        tool: str, source: Path, score: str, *words: str, rc: int = 0
    ) -> tuple[dict[str, tuple[float, int]], list[str]]:
        at = ("--ledger", str(tmp_path / "l.db"))
        capsys.readouterr()
        assert main(["import", tool, str(source), "--as", "w", "--score", score, *words, *at]) == rc
        lines = capsys.readouterr().err.replace("cse: ", "").splitlines()
        if rc:
            return {}, lines
        rows = json.loads(printed(capsys, "table", "w", "--format", "json", *at))["rows"]
        means = [(row["cells"]["best"]["mean"], row["cells"]["best"]["n"]) for row in rows]
        return dict(zip((" ".join(map(str, row["key"].values())) for row in rows), means, strict=True)), lines

    return taken


def table(folder: Path, text: str) -> Path:
    (folder / "runs.csv").write_text(text, encoding="utf8")
    return folder / "runs.csv"


RATES = "1e-5,80\n1e-5,82\n3e-5,84\n3e-5,86\n"


@pytest.mark.parametrize("name", ["lr", "learning_rate", "config/lr", "params.lr", "hparams/alpha", "a"])
def test_a_number_that_says_a_setting_keeps_rows_apart(name: str, take: Import, tmp_path: Path) -> None:
    cells, lines = take("csv", table(tmp_path, f"{name},acc\n{RATES}"), "acc")
    assert cells == {"1e-05": (81.0, 2), "3e-05": (85.0, 2)}
    assert lines == [
        "no seed: 4 runs of 2 configurations, counted from 0 in their order; --seed NAME names what says it"
    ]


def test_round_numbers_of_no_known_kind_are_asked_for(take: Import, tmp_path: Path) -> None:
    file = table(tmp_path, "a,acc\n0.1,80\n0.2,81\n0.3,82\n")
    (line,) = take("csv", file, "acc", rc=2)[1]
    assert line.startswith(
        "setting or metric: a varies among rows of equal settings and no seed; give --rename a=a, --m"
    )
    assert len(take("csv", file, "acc", "--rename", "a=a")[0]) == 3
    (line,) = take("csv", file, "acc", "--drop", "b", rc=2)[1]
    assert line.startswith("no such name: drop=b; ")


def test_as_a_metric_or_left_out_the_same_numbers_part_nothing(take: Import, tmp_path: Path) -> None:
    file = table(tmp_path, "a,acc\n0.1,80\n0.2,81\n0.3,82\n")
    assert take("csv", file, "acc", "--drop", "a")[0] == {"": (81.0, 3)}
    assert take("csv", file, "acc", "--metric", "a")[0] == {"": (81.0, 3)}


@pytest.mark.parametrize("name", ["seed", "Seed", "SEED", "random_seed", "rng seed", "config/seed", "args.seed"])
@pytest.mark.parametrize("words", [(), ("--seed",)])
def test_a_seed_by_any_name(name: str, words: tuple[str, ...], take: Import, tmp_path: Path) -> None:
    file = table(tmp_path, f"{name},lr,acc\n0,1e-5,80\n1,1e-5,82\n0,3e-5,84\n1,3e-5,86\n")
    cells, lines = take("csv", file, "acc", *words, *([name] if words else []))
    assert cells == {"1e-05": (81.0, 2), "3e-05": (85.0, 2)} and not any("no seed" in line for line in lines)


def test_a_table_of_ray_tune(take: Import, tmp_path: Path) -> None:
    head = "eval_spearman,loss,timestamp,done,training_iteration,trial_id,date,time_total_s,pid,hostname,node_ip,"
    rows = [
        f"{0.70 + n / 100},0.3{n},17642740{n}0,False,3,ab{n}_0,2026-11-27_20-24-0{n},29.7{n},400{n},a,10.0.0.4,"
        f"{('1e-05', '3e-05')[n // 2]},{n % 2},ab{n}_0"
        for n in range(4)
    ]
    cells, lines = take(
        "csv", table(tmp_path, "\n".join([head + "config/lr,config/seed,logdir", *rows])), "eval_spearman"
    )
    assert cells == {"1e-05": (pytest.approx(0.705), 2), "3e-05": (pytest.approx(0.725), 2)}
    named = " ".join(lines)
    assert [name for name in head.split(",")[1:-1] if name not in named] == [] and "config/seed says it" in named


def test_decimal_commas_states_and_another_source_are_named(take: Import, tmp_path: Path) -> None:
    cells, lines = take(
        "csv", table(tmp_path, "seed;acc;t;state\n0;80;0,1;done\n1;81;0,1;done\n2;9;0,1;failed\n"), "acc"
    )
    assert cells == {"": (80.5, 2)} and lines == [
        "read as texts: decimal commas of t; export numbers with a decimal point",
        "left out: runs: 1 not finished (1 failed); import again when they have ended",
    ]
    other = tmp_path / "other.csv"
    other.write_text("seed;acc;t;state\n7;90;0,1;done\n", encoding="utf8")
    cells, lines = take("csv", other, "acc")
    assert cells[""][1] == 3 and lines[-1].startswith("one configuration of two sources: ")


def test_empty_columns_and_seeds_that_are_none_are_named(take: Import, tmp_path: Path) -> None:
    cells, lines = take("csv", table(tmp_path, "seed,acc,gone\n4294967295,80,\n4294967294,81,\n"), "acc")
    assert cells == {"": (80.5, 2)} and lines == [
        "left out: columns without a value: gone",
        "no seed: 2 runs of 1 configuration, counted from 0 in their order; --seed NAME names what says it; "
        "seed=4294967295 is no whole number from 0 below 2147483648",
    ]


def runs(folder: Path, *of: Mapping[str, object]) -> Path:
    (folder / "runs.json").write_text(json.dumps(of), encoding="utf8")
    return folder / "runs.json"


def test_settings_of_wandb_with_descriptions(take: Import, tmp_path: Path) -> None:
    def run(number: int) -> dict[str, object]:
        config = {"lr": {"value": (1e-5, 3e-5)[number // 2], "desc": None}, "seed": {"value": number % 2, "desc": None}}
        return {"id": f"b{number}", "config": config, "summaryMetrics": {"sts": 80 + 2 * number, "best": {"max": 85}}}

    wrapped = [run(number) for number in range(4)]
    expected = {"1e-05": (81.0, 2), "3e-05": (85.0, 2)}
    assert take("wandb", runs(tmp_path, *wrapped), "sts", "--metric", "best.max") == (expected, [])
    texts = [{**run, "config": json.dumps(run["config"])} for run in wrapped]
    assert take("wandb", runs(tmp_path, *texts), "sts") == (expected, [])


def test_a_ledger_with_descriptions_as_settings_is_mended(take: Import, tmp_path: Path) -> None:
    from analysis.ledger import Ledger
    from cse.importers import ForeignRun
    from cse.importers.take import ImportRequest
    from cse.importers.take import take as write

    old = [
        ForeignRun(id=f"b{n}", settings={"lr.value": 1e-5, "lr.desc": None, "seed.value": n}, metrics={"sts": 80.0 + n})
        for n in range(2)
    ]
    ledger = Ledger.open(tmp_path / "l.db")
    write(old, ImportRequest(tool="wandb", source="x", sweep="w", score="sts"), ledger)
    ledger.close()
    wrapped: list[Any] = [
        {
            "id": f"b{n}",
            "config": {"lr": {"value": 1e-5, "desc": None}, "seed": {"value": n}},
            "summary": {"sts": 80 + n},
        }
        for n in range(2)
    ]
    assert take("wandb", runs(tmp_path, *wrapped), "sts") == ({"": (80.5, 2)}, [])


def test_runs_of_wandb_that_differ_beside_their_settings(take: Import, tmp_path: Path) -> None:
    each = [{"id": name, "name": name, "config": {"lr": 1e-5}, "summary": {"sts": 80}} for name in ("mnrl", "gist")]
    cells, lines = take("wandb", runs(tmp_path, *each), "sts")
    assert cells[""][1] == 2 and "one cell for runs that differ in: name (mnrl, gist); --rename NAME=KEY" in lines[-1]
    grouped = [{**run, "id": f"g{run['name']}", "group": run["name"]} for run in each]
    assert set(take("wandb", runs(tmp_path, *grouped), "sts")[0]) >= {"mnrl", "gist"}
    (line,) = take("wandb", runs(tmp_path, {"id": "x", "config": {}, "summary": {"note": "y"}}), "sts", rc=2)[1]
    assert line.startswith("no such score: score=sts; no run of source=")


def test_a_page_of_wandb_with_settings_among_its_columns(take: Import, tmp_path: Path) -> None:
    head = '"Name","State","User","Created","Runtime","loss_fn","lr","Seed","eval/sts"\n'
    rows = (
        f'"r{n}","finished","me","2026-01-0{n + 1}T10:00:00.000Z","10{n}","{("mnrl", "gist")[n // 2]}","1e-05","{n % 2}","{80 + 2 * n}"'  # noqa: E501
        for n in range(4)
    )
    cells, lines = take("wandb", table(tmp_path, head + "\n".join(rows)), "eval/sts")
    assert cells == {"mnrl": (81.0, 2), "gist": (85.0, 2)} and lines == [
        "left out: texts: User; --rename NAME=KEY takes one as a setting",
        "kept as metrics: Runtime; --rename NAME=KEY takes one as a setting",
        "one cell for runs that differ in: Name (r0, r1, r2 and 1 more); --rename NAME=KEY tells them apart",
    ]


def test_constraints_directions_and_seeds_of_optuna(take: Import, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    study = optuna.create_study(storage=url, directions=["maximize", "minimize"])
    for x, loss in ((0.9, 3.0), (0.4, 1.0)):
        trial = study.ask()
        trial.suggest_float("x", x, x)
        trial.set_user_attr("scores", [x - 0.1, x + 0.1])
        trial.storage.set_trial_system_attr(trial._trial_id, "constraints", [x - 0.5])
        study.tell(trial, [x, loss])
    cells, lines = take("optuna", tmp_path / "s.db", "value_0", "--metric", "value_1")
    assert cells == {"": (0.4, 1)} and lines == [
        "n is 1 for each trial, whose value is the mean of scores: its spread is not read",
        "left out: 1 run that break a constraint",
        "left out: texts: scores; --rename NAME=KEY takes one as a setting",
    ]
    (line,) = take("optuna", tmp_path / "s.db", "value_0", "--metric", "value_1:max", rc=2)[1]
    assert line.startswith("two directions: score=value_1, and ")


def test_attributes_of_optuna_that_differ_at_equal_parameters(take: Import, tmp_path: Path) -> None:
    study = optuna.create_study(storage=f"sqlite:///{tmp_path / 's.db'}", direction="maximize")
    for number, loss in enumerate(("mnrl", "gist")):
        trial = study.ask()
        trial.suggest_float("x", 0.5, 0.5)
        trial.set_user_attr("loss", loss)
        study.tell(trial, 0.5 + number / 10)
    assert any("differ in: loss (mnrl, gist)" in line for line in take("optuna", tmp_path / "s.db", "value")[1])


def test_what_trackio_has_of_steps_that_were_logged_again_counts_once(take: Import, tmp_path: Path) -> None:
    write_project(
        tmp_path / "p.db", {"a": [{"sts": 0.5}, {"sts": 0.6}, {"sts": 0.99}, {"other": 1.0}], "b": [{"sts": 0.7}]}
    )
    with sqlite3.connect(tmp_path / "p.db") as connection:
        row = ("a", "2026-01-01T00:00:00+00:00", "a", 1, json.dumps({"sts": 0.62}))
        connection.execute("insert into metrics values (null, ?, ?, ?, ?, ?)", row)
        row = ("b", "2026-01-01T00:00:00+00:00", "run b", 0, json.dumps({"test": 0.1}))
        connection.execute("insert into metrics values (null, ?, ?, ?, ?, ?)", row)
    connection.close()
    cells, lines = take("trackio", tmp_path / "p.db", "sts")
    assert cells == {"": (pytest.approx(0.66), 2)}
    assert lines[0] == "steps logged again: a; what it logged before from there on is left out"


def test_what_mlflow_has_of_steps_that_were_logged_again(take: Import, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="pip install 'cse-search[mlflow]'")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    for number, steps in enumerate((((0, 0.5), (10, 0.99), (5, 0.6)), ((0, 0.5), (10, 0.7)))):
        run = client.create_run("0", tags={"loss": ("mnrl", "gist")[number]}, run_name="same")
        for at, (step, value) in enumerate(steps):
            client.log_metric(run.info.run_id, "acc", value, step=step, timestamp=1_764_274_000_000 + at)
        client.set_terminated(run.info.run_id)
    cells, lines = take("mlflow", tmp_path / "mlflow.db", "acc")
    assert cells == {"": (pytest.approx(0.65), 2)} and "differ in: loss (" in lines[-1]
    assert any(line.startswith("steps logged again: same has acc twice;") for line in lines)


def write_rates(folder: Path) -> Path:
    for number in range(4):
        rate, seed = ("1e-05", "3e-05")[number // 2], number % 2
        state = folder / f"lr{rate}_s{seed}" / "checkpoint-100"
        write_state(state, 100, [(100, 80.0 + 2 * number)])
        read = json.loads((state / "trainer_state.json").read_text(encoding="utf8"))
        read["log_history"][0]["learning_rate"] = float(rate)
        (state / "trainer_state.json").write_text(json.dumps(read), encoding="utf8")
    return folder


def test_two_rates_of_the_trainer(take: Import, tmp_path: Path) -> None:
    cells, lines = take("trainer", write_rates(tmp_path / "out"), "eval_sts")
    assert cells == {"lr1e-05 1e-05": (81.0, 2), "lr3e-05 3e-05": (85.0, 2)}
    assert lines == [
        "seeds are read of the names of folders",
        "no training_args.bin beside 4 runs: their seeds and settings are known by names of folders and logged "
        "learning rates alone",
    ]
    cells, lines = take(
        "trainer", tmp_path / "out", "eval_sts", "--drop", "folder", "--drop", "logged_learning_rate", rc=2
    )
    assert lines[0].startswith("one seed twice: seed=0 of ")


def test_runs_that_an_earlier_version_pooled_are_parted_and_not_imported_again(take: Import, tmp_path: Path) -> None:
    out = write_rates(tmp_path / "out")
    names = ("--drop", "folder", "--drop", "logged_learning_rate", "--drop", "train.seed")
    assert take("trainer", out, "eval_sts", *names)[0] == {"": (83.0, 4)}
    assert take("trainer", out, "eval_sts")[0] == {"lr1e-05 1e-05": (81.0, 2), "lr3e-05 3e-05": (85.0, 2)}


class Arguments:
    """Stands for the Trainer's, which pickles its fields."""


class Harmful:
    """Its pickle opens a file for writing where it is read without care."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.file), "w")


def write_arguments(folder: Path, **fields: object) -> None:
    arguments = Arguments()
    vars(arguments).update(fields)
    with zipfile.ZipFile(folder / "training_args.bin", "w") as archive:
        archive.writestr("training_args/data.pkl", pickle.dumps(arguments, protocol=2))


def test_arguments_cards_and_adapters_of_the_trainer_keep_runs_apart(take: Import, tmp_path: Path) -> None:
    beside: dict[str, Callable[[Path], object]] = {
        "args": lambda at: write_arguments(at, learning_rate=3e-5, seed=7, hub_token="secret"),
        "card": lambda at: (at / "README.md").write_text("---\ntags:\n- loss:GISTEmbedLoss\n---\n", encoding="utf8"),
        "adapter": lambda at: (at / "adapter_config.json").write_text('{"r": 16}', encoding="utf8"),
        "pooling": lambda at: (at / "config.json").write_text('{"hidden_size": 384}', encoding="utf8"),
    }
    for number, write in enumerate([lambda at: None, *beside.values()]):
        folder = tmp_path / "out" / f"run_s{number}"
        write_state(folder, 100, [(100, 80.0 + number)])
        write(folder)
    cells, _ = take("trainer", tmp_path / "out", "eval_sts", "--drop", "folder")
    assert len(cells) == 5 and "secret" not in (tmp_path / "l.db").read_bytes().decode("latin1")


def test_each_folder_without_a_seed_is_a_cell_and_its_number_may_be_the_seed(take: Import, tmp_path: Path) -> None:
    for number in range(3):
        write_state(tmp_path / "out" / f"run{number}", 100, [(100, 80.0 + number)])
    cells, lines = take("trainer", tmp_path / "out", "eval_sts")
    assert len(cells) == 3 and any(
        line.startswith("each folder is a configuration: run0, run1, run2; --seed") for line in lines
    )
    assert take("trainer", tmp_path / "out", "eval_sts", "--seed", "folder")[0] == {"": (81.0, 3)}


def test_checkpoints_of_two_runs_copies_and_runs_that_ended_early_are_named(take: Import, tmp_path: Path) -> None:
    out = tmp_path / "out" / "x_seed0"
    write_state(out / "checkpoint-50", 50, [(50, 70.0)])
    write_state(out / "checkpoint-100", 100, [(50, 70.0), (100, 71.0)])
    write_state(out, 100, [(50, 70.0), (100, 71.0), (100, 72.0)])
    cells, lines = take("trainer", tmp_path / "out", "eval_sts", rc=0)
    assert cells == {"": (72.0, 1)} and not any("two runs" in line for line in lines), "its own state goes on"
    write_state(out / "checkpoint-50", 50, [(50, 99.0)])
    write_state(tmp_path / "out" / "x_seed1", 60, [(50, 74.0)])
    write_state(tmp_path / "out" / "y", 60, [(50, 74.0)])
    cells, lines = take("trainer", tmp_path / "out", "eval_sts")
    assert cells == {"": (73.0, 2)} and lines[:4] == [
        f"two runs in one folder: the checkpoints of {out} have logs of several; the newest counts",
        "seeds are read of the names of folders",
        "left out: y is a copy of x_seed1",
        "no training_args.bin beside 2 runs: their seeds and settings are known by names of folders and logged "
        "learning rates alone",
    ]
    assert lines[4] == "ended before max_steps: x_seed1; stopped early or cut off, the last evaluation counts"


def test_a_pickle_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(pickle.dumps(Harmful(tmp_path / "harm")))
    assert trainer.read_fields(tmp_path / "x.bin") == {} and not (tmp_path / "harm").exists()
    (tmp_path / "x.bin").write_bytes(b"text")
    with pytest.raises(ValueError, match="it is no pickle"):
        trainer.read_fields(tmp_path / "x.bin")


@pytest.mark.parametrize("name", ["training_args.bin", "config.json", "adapter_config.json", "README.md"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x05", b"[1]", b"[" * 100_000, b"\xff\xfe\x00", b"{}"])
def test_a_damaged_file_beside_a_run_costs_a_line_at_most(name: str, data: bytes, tmp_path: Path) -> None:
    write_state(tmp_path / "out" / "x_seed0", 100, [(100, 70.0)])
    (tmp_path / "out" / "x_seed0" / name).write_bytes(data)
    (run,) = trainer.read(str(tmp_path / "out"), None)
    assert run.metrics["eval_sts"] == 70.0 and run.settings["train.seed"] == 0
    assert any("unread: " in line for line in run.remarks) or name == "README.md" or data == b"{}"


def write_subsets(folder: Path, task: str, revision: str = "x", **splits: Mapping[str, float]) -> None:
    write_result(folder, task)
    result = json.loads((folder / f"{task}.json").read_text(encoding="utf8"))
    result["dataset_revision"] = revision
    for split, values in splits.items():
        result["scores"][split] = [{"main_score": value, "hf_subset": name} for name, value in values.items()]
    (folder / f"{task}.json").write_text(json.dumps(result), encoding="utf8")


def test_a_mean_of_mteb_is_over_the_subsets_that_all_models_have(take: Import, tmp_path: Path) -> None:
    write_subsets(tmp_path / "m" / "a" / "r", "STS22", test={"en": 0.62, "de": 0.52})
    write_subsets(tmp_path / "m" / "b" / "r", "STS22", revision="y", test={"en": 0.64})
    cells, lines = take("mteb", tmp_path / "m", "STS22", "--metric", "STS22 [de]")
    assert cells == {"a": (0.62, 1), "b": (0.64, 1)} and lines == [
        "not all models have de of STS22 (test): its mean is over en; each subset is a metric, such as STS22 [de]",
        "models differ in dataset_revision of STS22 (x, y): the numbers may not compare",
    ]
    write_subsets(tmp_path / "n" / "c" / "r", "STS22", test={"fr": 0.9, "en": 0.8})
    assert any("en, fr" in name for name in take("mteb", tmp_path / "n", "STS22")[0]), "another mean is another cell"


def test_another_split_of_mteb_is_another_metric(take: Import, tmp_path: Path) -> None:
    write_subsets(tmp_path / "m" / "a" / "r", "X", test={"default": 0.6})
    write_subsets(tmp_path / "m" / "b" / "r", "X", dev={"default": 0.9})
    cells, lines = take("mteb", tmp_path / "m", "X")
    assert cells == {"": (0.6, 1)} and lines[0].startswith("left out: runs: 1 without X;")


def test_old_results_of_mteb_are_read_or_named(take: Import, tmp_path: Path) -> None:
    folder = tmp_path / "m" / "a" / "r"
    folder.mkdir(parents=True)
    about = {"dataset_revision": "x", "mteb_version": "1.0.2"}
    spearman = {"cos_sim": {"pearson": 0.1, "spearman": 0.8}}
    tasks = {
        "STS12": {"mteb_dataset_name": "STS12", "test": {**spearman, "evaluation_time": 3}},
        "STS17": {"mteb_dataset_name": "STS17", "test": {"en-en": spearman, "en-de": {"cos_sim": {"spearman": 0.6}}}},
        "Banking": {"mteb_dataset_name": "Banking", "test": {"accuracy": 0.9, "main_score": 0.7}},
        "other": {"x": 1},
    }
    for name, result in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps({**about, **result}), encoding="utf8")
    words = ("--metric", "STS17", "--metric", "Banking")
    cells, lines = take("mteb", tmp_path / "m", "STS12", *words)
    assert cells == {"": (0.8, 1)} and lines == [
        "old results: cos_sim.spearman is taken for the main score of STS12",
        "old results: cos_sim.spearman is taken for the main score of STS17",
        "left out: files without a score of a task: other.json of a",
    ]


def test_seeds_of_mteb_by_names_of_models_and_by_revisions(take: Import, tmp_path: Path) -> None:
    for seed in range(3):
        write_result(tmp_path / "named" / f"me__m-seed{seed}" / "r", "STS12", test=[0.6 + seed / 10])
        write_result(tmp_path / "revised" / "me__n" / str(seed), "STS12", test=[0.6 + seed / 10])
    assert take("mteb", tmp_path / "named", "STS12")[0] == {"": (pytest.approx(0.7), 3)}
    cells, _ = take("mteb", tmp_path / "revised", "STS12", "--seed", "revision")
    assert [n for _, n in cells.values()] == [3, 3]


@pytest.mark.parametrize(
    ("text", "rest", "seed"),
    [
        ("lr1e-05_s0", "lr1e-05", 0),
        ("simcse-seed42", "simcse", 42),
        ("seed=1", "", 1),
        ("simcse/seed0", "simcse", 0),
        ("random_seed_7-bert", "bert", 7),
        ("bert-s2orc", "bert-s2orc", None),
        ("all-MiniLM-L6-v2", "all-MiniLM-L6-v2", None),
        ("t5-small", "t5-small", None),
        ("simcse_seed42_bert", "simcse_bert", 42),
        ("lr_s0.5", "lr_s0.5", None),
        ("seed1_seed2", "seed1_seed2", None),
    ],
)
def test_names_that_say_a_seed(text: str, rest: str, seed: int | None) -> None:
    assert split_seed(text) == (rest, seed)
