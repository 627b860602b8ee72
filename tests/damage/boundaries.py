"""One kind of file each: how it is damaged, and the reader that a person meets."""

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import torch
from hypothesis import strategies as st

from analysis.ledger import Baselines, Ledger, UntrainedScore
from analysis.sweep_spec import SweepSpec
from cse.cli.app import main
from cse_train import checkpoint
from cse_train.config import parse_run
from cse_train.data_paths import DataPaths
from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.folders import find_weights
from cse_train.evaluate.models import open_word_vectors
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import fingerprint_of
from cse_train.evaluate.user_sets import open_user_file
from cse_train.fields import ConfigError
from cse_train.methods.base import load_method
from cse_train.results import Protocol
from cse_train.text.file_corpora import file_source, user_source
from cse_train.text.tables import read_sentences
from cse_train.user_files import UserFile
from search_spaces.catalog import find_folder
from search_spaces.parse import parse_file
from search_spaces.user_data import mapping, user_file
from tests.damage.damages import ODD, as_json, damaged, exchanged
from tests.run_values import claim_run, end_run, point_of, score_of

CONFIG = {"method": "simcse", "train.encoder": "words-l1-h64", "train.dev": "generated_dev:20", "method.pooler": "mean"}


@dataclass(frozen=True)
class Boundary:
    """`read` raises what a person is shown, or AssertionError where damage is accepted that changes a number."""

    name: str
    damages: st.SearchStrategy[Any]
    read: Callable[[Path, Any], object]


def all_boundaries(folder: Path) -> list[Boundary]:
    """Every boundary, on sound files that are made in `folder`."""
    made = [*_texts(), _space(), _settings(), *_checkpoints(folder), *_models(folder), *_ledgers(folder), _ratings()]
    return [*made, *_user_files(folder)]


def _texts() -> list[Boundary]:
    rows = [f"the {word} is by the river, it is old" for word in ("stone", "bridge", "market", "garden")]
    contents = {
        "text.txt": "\n".join(rows).encode(),
        "pairs.csv": ("sent0,sent1,label\n" + "".join(f'"{row}","{row}",neutral\n' for row in rows)).encode(),
        "texts.jsonl": "".join(json.dumps({"text": row}) + "\n" for row in rows).encode(),
    }
    contents |= {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in contents.items()}
    tokens = load_backbone("words-l1-h64").tokenizer
    vectors = b"2 3\nthe 0.1 0.2 0.3\nriver 0.5 0.1 0.2\n"

    def text(name: str) -> Callable[[Path, bytes], object]:
        def read(folder: Path, content: bytes) -> None:
            path = folder / name
            path.write_bytes(content)
            for row in file_source("file", path).rows():
                tokens(list(row), truncation=True, max_length=8)
            list(read_sentences(path, None if name.startswith("text") else "sent0"))

        return read

    def embed(folder: Path, content: bytes) -> None:
        (folder / "words.vec").write_bytes(content)
        open_word_vectors(folder / "words.vec").embed(["the river", "no word"])

    found = [Boundary(name, damaged(content), text(name)) for name, content in contents.items()]
    return [*found, Boundary("words.vec", damaged(vectors), embed)]


def _space() -> Boundary:
    content = (find_folder() / "papers" / "E7_esimcse_dup_rate.yaml").read_bytes()

    def read(folder: Path, content: bytes) -> None:
        (folder / "space.yaml").write_bytes(content)
        parse_file(folder / "space.yaml")

    return Boundary("space.yaml", damaged(content), read)


def _settings() -> Boundary:
    """A run's settings with others' values, as --set, a ledger and a checkpoint bring them."""
    flat = parse_run({"method": "esimcse"}).flat()

    def read(folder: Path, flat: dict[str, Any]) -> None:
        parse_run(flat)

    return Boundary("settings", exchanged(flat), read)


def _checkpoints(folder: Path) -> list[Boundary]:
    sound = folder / "run"
    run = parse_run(CONFIG)
    model = load_method(run.method).build(run.options, load_backbone("words-l1-h64"))
    point = {"examples": 8, "best": 1.0, "best_examples": 8}
    checkpoint.save_best(sound, run, model, point, "a" * 24)
    checkpoint.save_last(sound, {"signature": "a" * 24, "step": 1, "points": [point], "model": {"w": torch.ones(64)}})
    tensors = checkpoint.read_best(sound)[2]

    def same(folder: Path) -> None:
        found, facts, read = checkpoint.read_best(folder, "a" * 24)
        assert found == run and facts == point and read.keys() == tensors.keys()
        assert all(torch.equal(read[name], tensors[name]) for name in tensors)

    def best(folder: Path, content: bytes) -> None:
        (folder / "best").mkdir()
        (folder / checkpoint.BEST).write_bytes(content)
        same(folder)

    def header(folder: Path, parts: tuple[Any, Any]) -> None:
        """A header that someone wrote, with the checksum that fits it: read without harm, whatever it says."""
        texts = {"run": as_json(parts[0]).decode(), "facts": as_json(parts[1]).decode()}
        (folder / "best").mkdir()
        crc32 = {"crc32": checkpoint.sum_of(texts.values(), tensors)}
        checkpoint.save_file(tensors, folder / checkpoint.BEST, metadata=texts | crc32)
        checkpoint.load_model(folder)

    def state(folder: Path, content: bytes) -> None:
        shutil.copytree(sound, folder / "run")
        (folder / "run" / checkpoint.LAST).write_bytes(content)
        found = checkpoint.load_newest([folder / "run"], signature="a" * 24)
        assert found is None or torch.equal(found[0]["model"]["w"], torch.ones(64))

    headers = st.tuples(exchanged(run.flat()), exchanged(point))
    return [
        Boundary("best", damaged((sound / checkpoint.BEST).read_bytes()), best),
        Boundary("best's header", headers, header),
        Boundary("state", damaged((sound / checkpoint.LAST).read_bytes()), state),
    ]


def _models(folder: Path) -> list[Boundary]:
    """A shipped encoder and its tokenizer in a folder of transformers' layout."""
    sound = folder / "model"
    shutil.copytree(find_weights() / "words-l1-h64", sound)
    config = json.loads((sound / "config.json").read_text(encoding="utf8"))
    settings = json.loads((sound / "tokenizer_config.json").read_text(encoding="utf8"))

    def part(name: str) -> Callable[[Path, bytes], object]:
        def read(folder: Path, content: bytes) -> None:
            for file in sound.iterdir():
                (folder / file.name).symlink_to(file)
            (folder / name).unlink()
            (folder / name).write_bytes(content)
            backbone = load_backbone(str(folder))
            backbone.tokenizer(["a river"], truncation=True, max_length=8)

        return read

    return [
        Boundary("config.json", exchanged(config).map(as_json), part("config.json")),
        Boundary("config.json's bytes", damaged(as_json(config)), part("config.json")),
        Boundary("tokenizer_config.json", exchanged(settings).map(as_json), part("tokenizer_config.json")),
        Boundary("tokenizer.json", damaged((sound / "tokenizer.json").read_bytes()), part("tokenizer.json")),
        Boundary("weights", damaged((sound / "model.safetensors").read_bytes()), part("model.safetensors")),
    ]


def sound_ledger(folder: Path) -> Ledger:
    """A ledger with a row of each kind that a run leaves."""
    ledger = Ledger.open(folder / "sound.db")
    ledger.record_sweep(
        "mine", SweepSpec({"title": "mine", "space": "E7", "seeds": [0], "set": {}, "asked": None, "blocked": {}})
    )
    ledger.link("mine", [("aa", {"train.learning_rate": 1e-4}, 0)])
    claim = claim_run(ledger, "aa", CONFIG, identity={"encoder": "e"}, provenance={"host": "h"})
    ledger.add_points(claim, [point_of(8, metrics={"loss": 1.0})])
    end_run(ledger, claim, examples=8, folder="/nowhere")
    ledger.add_score("aa", score_of("sts_dev", 50.0, {"suite": "sts_dev"}))
    ledger.store_baselines([Baselines("sts_dev", "e", "wiki", 32, {"suite": "x"}, {"word counts": 50.5})])
    ledger.store_untrained([UntrainedScore("bert", "w", "cls", "sts12", "d", 39.5, Protocol.read({"suite": "sts12"}))])
    return ledger


def show(folder: Path) -> None:
    """Every command that lists runs of the ledger l.db: none may end otherwise than with 0 or, for a mistake, 2."""
    place = ("--storage", str(folder))
    for command in (("trials",), ("ls",), ("status",), ("best", "mine"), ("report", "mine", *place), ("table", "E7")):
        code = main([*command, "--ledger", str(folder / "l.db")])
        assert code in (0, 2), (command, code)


def _ledgers(folder: Path) -> list[Boundary]:
    sound = folder / "sound.db"
    sound_ledger(folder).close()
    with sqlite3.connect(sound) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        columns = [(t, row[1]) for t in names for row in connection.execute(f"pragma table_info({t})")]
    connection.close()

    def file(folder: Path, content: bytes) -> None:
        (folder / "l.db").write_bytes(content)
        show(folder)

    def row(folder: Path, edit: tuple[tuple[str, str], Any]) -> None:
        (table, column), value = edit
        value = as_json(value).decode() if isinstance(value, list | dict) else value
        value = min(value, 2**63 - 1) if isinstance(value, int) else value
        shutil.copy(sound, folder / "l.db")
        with sqlite3.connect(folder / "l.db") as connection:
            try:
                connection.execute(f"update {table} set {column} = ?", [value])
            except (sqlite3.Error, UnicodeError):
                return
        connection.close()
        show(folder)

    edits = st.tuples(st.sampled_from(columns), st.sampled_from(ODD))
    return [
        Boundary("ledger's file", damaged(sound.read_bytes()), file),
        Boundary("ledger's rows", edits, row),
    ]


def _ratings() -> Boundary:
    lines = "".join(f"main\tx\t2012\t{i}\t{i % 6}.0\ta river {i}\ta bridge {i}\n" for i in range(1500)).encode()

    def read(folder: Path, content: bytes) -> None:
        path = folder / "STS" / "STSBenchmark" / "sts-dev.csv"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        pairs = load_pairs("sts_dev", DataPaths(senteval=folder))
        if not (len(pairs) == 1500 and 0 <= pairs.gold.min() < pairs.gold.max() <= 5):
            raise AssertionError("wrong ratings were accepted")

    return Boundary("ratings", damaged(lines), read)


def _user_files(folder: Path) -> list[Boundary]:
    """Sets and corpora of a user's own in each format: what is read is whole, and its numbers are finite."""
    rows = [{"sentence1": f"a river {i}", "sentence2": f"a bridge {i * 7}", "score": float(i % 5)} for i in range(12)]
    table = pd.DataFrame(rows)
    table.to_parquet(folder / "set.parquet")
    datasets.Dataset.from_list(rows).save_to_disk(str(folder / "saved"))
    (arrow,) = (folder / "saved").glob("*.arrow")
    contents = {
        "set.tsv": table.to_csv(sep="\t", index=False).encode(),
        "set.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "set.parquet": (folder / "set.parquet").read_bytes(),
        "queries.csv": ("query,document,relevance\n" + "".join(f"a{i % 3},b{i},{i % 2}\n" for i in range(12))).encode(),
        "labels.csv": ("text,label\n" + "".join(f"a river {i},{i % 2}\n" for i in range(30))).encode(),
    }

    def read_file(path: Path) -> None:
        read_all(UserFile(name="mine", file=str(path), role="test"))
        columns = (("sent0", "sentence1"), ("sent1", "sentence2"))
        for row in user_source(UserFile(name="mine", file=str(path), role="corpus", columns=columns)).rows():
            assert len(row) == 2 and all(text.strip() for text in row), row

    def read_all(file: UserFile) -> None:
        fingerprint_of(file)
        if open_user_file(file).kind == "ratings":
            assert np.isfinite(load_pairs("mine", DataPaths(files=(file,))).gold).all()

    def written(name: str) -> Callable[[Path, bytes], object]:
        def read(folder: Path, content: bytes) -> None:
            (folder / name).write_bytes(content)
            read_file(folder / name)

        return read

    def saved(name: str) -> Callable[[Path, bytes], object]:
        def read(place: Path, content: bytes) -> None:
            shutil.copytree(folder / "saved", place / "saved")
            (place / "saved" / name).write_bytes(content)
            read_file(place / "saved")

        return read

    def named(folder: Path, raw: dict[str, Any]) -> None:
        """What a YAML says of a file."""
        file, problems = user_file(raw, "dev", folder, "dev")
        if problems:
            raise ConfigError(problems)
        assert file is not None and user_file(mapping(file.text(), "dev"), "dev", folder, "dev")[0] == file
        open_user_file(file)

    said = {"file": "set.tsv", "name": "mine", "columns": {"rating": "score"}, "quotes": True, "kind": "ratings"}
    folders = {name: (folder / "saved" / name).read_bytes() for name in ("state.json", "dataset_info.json")}
    folders[arrow.name] = arrow.read_bytes()
    return [
        *(Boundary(name, damaged(content), written(name)) for name, content in contents.items()),
        *(Boundary(f"saved {Path(name).suffix}, {name[:5]}", damaged(folders[name]), saved(name)) for name in folders),
        Boundary("a file's mapping", exchanged(said), named),
    ]
