"""`cse data get` against a publisher that fails as networks do; from nothing to a table by two commands."""

import csv
import errno
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from cse.cli.app import main
from cse.downloads import catalog, fetch
from cse_train.data_paths import DataPaths
from tests.commands import refused
from tests.cse.downloads.publisher import Publisher, publish
from tests.documents import validated

SENTENCES = "".join(f"Sentence {number} has {number * number} words.\n" for number in range(4000)).encode()
TRIPLETS = b"sent0,sent1,hard_neg\na man plays,a person plays,nobody plays\n"
STS = {"STS/STSBenchmark/sts-dev.csv": b"dev\n", "SICK/SICK_trial.txt": b"pairs\n", "MR/rt-polarity.pos": b"fine\n"}
HEAD = "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1\tsentence2\tpairID\n"
SPLITS = {
    split: f"{HEAD}entailment\t(a)\t(b)\tA man  {split}s.\tA person {split}s.\t1\n-\t(c)\t(d)\tDog.\tCat.\t2\n".encode()
    for split in ("train", "dev", "test")
}


def tar_of(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def away(address: str, here: Path) -> Path:
    raise fetch.NotFetched("no hub")


@pytest.fixture
def publisher(monkeypatch) -> Iterator[Publisher]:
    files = {
        "wiki1m_for_simcse.txt": SENTENCES,
        "nli_for_simcse.csv": TRIPLETS,
        "senteval.tar": tar_of(STS),
        "snli_1.0.zip": zip_of({f"snli_1.0/snli_1.0_{split}.txt": text for split, text in SPLITS.items()}),
        "multinli_1.0.zip": zip_of({"multinli_1.0/multinli_1.0_train.txt": SPLITS["train"]}),
        "glove.840B.300d.zip": zip_of({"glove.840B.300d.txt": b"the 0.5 0.25\n"}),
    }
    monkeypatch.setattr(fetch, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(fetch, "_from_hub", away)  # half a minute of its tries; `on_the_hub` has it in another process
    with publish(files) as server:
        yield server


def on_the_hub(publisher: Publisher, *words: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    """A call in a process of its own: huggingface_hub reads its address when it is imported."""
    publisher.fault = fault
    environment = os.environ | {"HF_ENDPOINT": publisher.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(
        [sys.executable, "-m", "cse", "data", *words], env=environment, capture_output=True, text=True
    )


def got(folder: Path, *names: str, mirror: str = "", more: tuple[str, ...] = ()) -> int:
    return main(["data", "get", *names, "--to", str(folder), *(["--mirror", mirror] if mirror else []), *more])


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_from_the_hub_to_where_data_reads_it_with_its_checksums(publisher, tmp_path):
    done = on_the_hub(publisher, "get", "wiki1m", "sts", "nli", "--to", str(tmp_path))
    assert done.returncode == 0, done.stderr
    asked = {path for _, path, _ in publisher.asked if "resolve" in path}  # its library may ask about itself too
    files = ("wiki1m_for_simcse.txt", "senteval.tar", "nli_for_simcse.csv")
    assert asked == {f"/datasets/princeton-nlp/datasets-for-simcse/resolve/main/{file}" for file in files}
    paths = DataPaths.from_folder(tmp_path)
    assert paths.wiki is not None and paths.wiki.read_bytes() == SENTENCES
    assert paths.nli is not None and paths.nli.read_bytes() == TRIPLETS
    assert paths.senteval is not None and sorted(path.name for path in paths.senteval.iterdir()) == ["SICK", "STS"]
    lock = json.loads((tmp_path / "data.lock.json").read_text())
    assert lock["wiki1m"]["downloads"] == {"wiki1m_for_simcse.txt": digest(SENTENCES)}
    assert lock["sts"]["files"]["senteval/downstream/SICK/SICK_trial.txt"] == digest(b"pairs\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.lock.json", "nli", "senteval", "wiki"]
    requests = len(publisher.asked)
    assert "there already" in on_the_hub(publisher, "get", "wiki1m", "--to", str(tmp_path)).stdout
    assert len(publisher.asked) == requests


@pytest.mark.parametrize("fault", ["cut", "slow"])
def test_the_hub_s_faults_cost_no_byte(publisher, tmp_path, fault):
    done = on_the_hub(publisher, "get", "wiki1m", "--to", str(tmp_path), fault=fault)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "wiki" / "wiki1m_for_simcse.txt").read_bytes() == SENTENCES


@pytest.mark.parametrize("fault", ["cut", "slow", "whole"])
def test_a_mirror_s_faults_cost_no_byte(publisher, tmp_path, fault):
    publisher.fault = fault
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 0
    assert (tmp_path / "wiki" / "wiki1m_for_simcse.txt").read_bytes() == SENTENCES
    if fault == "cut":  # half, then half of the rest, then the rest
        ranges = [given for _, _, given in publisher.asked]
        size = len(SENTENCES)
        assert ranges == [None, f"bytes={size // 2}-", f"bytes={size // 2 + (size - size // 2) // 2}-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_the_next_call_goes_on_where_the_last_was_given_up(publisher, tmp_path, ranges, monkeypatch):
    monkeypatch.setattr(fetch, "TRIES", 1)
    publisher.fault, publisher.cuts = "cut", 1
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 1
    assert not (tmp_path / "wiki").exists() and not (tmp_path / "data.lock.json").exists()
    publisher.fault = "" if ranges else "whole"
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 0
    assert (tmp_path / "wiki" / "wiki1m_for_simcse.txt").read_bytes() == SENTENCES
    assert publisher.asked[-1][2] == f"bytes={len(SENTENCES) // 2}-"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("gone", "HTTP 404"), ("html", "a page of HTML came instead of the file (a proxy's or a login's?)")],
)
def test_what_cannot_be_had_is_one_line_and_the_machine_s_fault(publisher, tmp_path, capsys, fault, reason):
    publisher.fault = fault
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"cse: not fetched: {publisher.url}/wiki1m_for_simcse.txt: {reason}")
    assert ", hub:princeton-nlp/datasets-for-simcse/wiki1m_for_simcse.txt: no hub; " in line
    assert line.endswith("--mirror ADDRESS; the same command goes on")
    assert not (tmp_path / "wiki").exists()


@pytest.mark.parametrize("fault", ["gone", "html"])
def test_what_the_hub_does_not_have_is_one_line(publisher, tmp_path, fault):
    done = on_the_hub(publisher, "get", "nli", "--to", str(tmp_path), fault=fault)
    assert done.returncode == 1 and not (tmp_path / "nli").exists()
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("cse: not fetched: hub:princeton-nlp/datasets-for-simcse/nli_for_simcse.csv: ")


def test_no_network_is_one_line(publisher, tmp_path, capsys):
    with publish({}) as gone:
        address = gone.url
    assert got(tmp_path, "wiki1m", mirror=address) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"{address}/wiki1m_for_simcse.txt: <urlopen error [Errno 111] Connection refused>" in line


def test_another_version_than_the_lock_is_asked_for(publisher, tmp_path, capsys):
    assert got(tmp_path, "nli", mirror=publisher.url) == 0
    file = tmp_path / "nli" / "nli_for_simcse.csv"
    file.unlink()
    later = TRIPLETS + b"a dog runs,an animal runs,a cat runs\n"
    publisher.files["nli_for_simcse.csv"] = later
    assert got(tmp_path, "nli", mirror=publisher.url) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"cse: another version: nli, nli_for_simcse.csv has SHA-256 {digest(later)[:12]}, data.lock")
    assert line.endswith("--update takes the new one") and not file.exists()
    assert got(tmp_path, "nli", mirror=publisher.url, more=("--update",)) == 0
    assert file.read_bytes() == later


def test_a_file_of_somebody_s_own_is_never_overwritten(publisher, tmp_path, capsys):
    file = tmp_path / "nli" / "nli_for_simcse.csv"
    file.parent.mkdir()
    file.write_bytes(b"mine\n")
    assert got(tmp_path, "nli", mirror=publisher.url) == 2
    assert capsys.readouterr().err == (
        f"cse: file exists: {file} has another content; move it away, or give another --to\n"
    )
    assert file.read_bytes() == b"mine\n"
    file.write_bytes(TRIPLETS)
    assert got(tmp_path, "nli", mirror=publisher.url) == 0
    file.write_bytes(b"mine\n")
    assert got(tmp_path, "nli", mirror=publisher.url) == 2
    assert capsys.readouterr().err.startswith(f"cse: changed file: {file} is not what was fetched on 20")


def test_a_disk_that_fills_is_one_line_and_the_same_command_goes_on(publisher, tmp_path, capsys, monkeypatch):
    real = fetch._resume

    def fills(address: str, here: Path) -> Path:
        here.write_bytes(SENTENCES[:1000])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(here))

    monkeypatch.setattr(fetch, "_resume", fills)
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"cse: disk full: file={tmp_path}") and "give the same command again" in line
    monkeypatch.setattr(fetch, "_resume", real)
    assert got(tmp_path, "wiki1m", mirror=publisher.url) == 0
    assert publisher.asked[-1][2] == "bytes=1000-"


def test_the_hub_s_library_finds_the_disk_too_small_and_one_line_names_the_file(tmp_path, capsys, monkeypatch):
    def fills(*given: str, **more: object) -> str:
        warnings.warn("Not enough free disk space to download the file.", stacklevel=1)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fetch, "hf_hub_download", fills)
    with warnings.catch_warnings(record=True) as warned:
        assert got(tmp_path, "wiki1m") == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert warned == [] and line.startswith(f"cse: disk full: file={tmp_path}/.downloads/0-wiki1m_for_simcse.txt; ")


def test_a_folder_that_cannot_be_written_is_one_line(publisher, tmp_path, capsys, monkeypatch):
    def refuse(self: Path, *given: object, **more: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert got(tmp_path, "nli", mirror=publisher.url) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("cse: cannot use a file: file=") and "(Read-only file system)" in line


def test_a_damaged_lock_file_is_one_line(publisher, tmp_path, capsys):
    (tmp_path / "data.lock.json").write_text("{", encoding="utf8")
    assert got(tmp_path, "nli", mirror=publisher.url) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"cse: damaged lock file: file={tmp_path}/data.lock.json") and publisher.asked == []


def test_a_file_in_the_place_of_a_folder_is_one_line(publisher, tmp_path, capsys):
    (tmp_path / "data").write_text("a file\n")
    assert got(tmp_path / "data", "nli", mirror=publisher.url) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("cse: cannot use a file: file=") and "data" in line


def test_a_damaged_archive_is_fetched_again(publisher, tmp_path, capsys):
    whole = publisher.files["senteval.tar"]
    publisher.files["senteval.tar"] = whole[:700]
    assert got(tmp_path, "senteval", mirror=publisher.url) == 2
    assert capsys.readouterr().err.startswith("cse: damaged archive: file=senteval.tar (")
    publisher.files["senteval.tar"] = whole
    assert got(tmp_path, "senteval", mirror=publisher.url) == 0
    assert (tmp_path / "senteval/downstream/MR/rt-polarity.pos").read_bytes() == b"fine\n"


@pytest.mark.parametrize("around", ["", "downstream/", "senteval/"])
def test_a_folder_around_an_archive_s_files_is_left_out(publisher, tmp_path, around):
    publisher.files["senteval.tar"] = tar_of({f"./{around}{name}": content for name, content in STS.items()})
    assert got(tmp_path, "senteval", mirror=publisher.url) == 0
    root = tmp_path / "senteval" / "downstream"
    assert {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()} == set(STS)


def test_an_archive_writes_nowhere_else(publisher, tmp_path, capsys):
    publisher.files["senteval.tar"] = tar_of({**STS, "../../../outside.txt": b"no\n"})
    assert got(tmp_path / "a" / "b", "senteval", mirror=publisher.url) == 2
    assert capsys.readouterr().err.startswith("cse: damaged archive: file=senteval.tar (")
    assert not list(tmp_path.rglob("outside.txt"))


def test_labelled_pairs_are_laid_out_as_their_corpora_read_them(publisher, tmp_path):
    assert got(tmp_path, "snli", "nli_labels", "glove", mirror=publisher.url) == 0
    folder = tmp_path / "senteval" / "downstream" / "SNLI"
    assert (folder / "s1.dev").read_text() == "A man devs.\nDog.\n"
    assert (folder / "labels.test").read_text() == "entailment\n-\n"
    with (tmp_path / "pairs" / "nli_labels.csv").open(newline="") as opened:
        assert list(csv.reader(opened)) == [
            ["sent0", "sent1", "label"],
            *[["A man trains.", "A person trains.", "entailment"]] * 2,
        ]
    assert (tmp_path / "vectors" / "glove.840B.300d.txt").read_text() == "the 0.5 0.25\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["get"], "no name: cse data get NAME...; cse data list has them, all is every one"),
        (["get", "wiki1"], "unknown data set: name=wiki1; did you mean wiki1m?"),
        (["list", "wiki1m"], "names are of get: wiki1m; write cse data get wiki1m"),
        (["get", "nli", "--mirror", "ftp://x"], "wrong address: --mirror=ftp://x; begin it with https:// or http://"),
    ],
)
def test_the_user_s_mistakes_are_one_line(tmp_path, capsys, words, line):
    assert refused(capsys, "data", *words, "--to", str(tmp_path / "data")) == f"cse: {line}"
    assert not (tmp_path / "data").exists()


def test_the_list_says_what_is_there(publisher, tmp_path, capsys):
    assert got(tmp_path, "nli", "sts", mirror=publisher.url) == 0
    (tmp_path / "senteval" / "downstream" / "SICK" / "SICK_trial.txt").unlink()
    capsys.readouterr()
    assert main(["data", "list", "--to", str(tmp_path), "--format", "json"]) == 0
    states = {row["name"]: row["state"] for row in validated("data", capsys.readouterr().out)["rows"]}
    assert {name: state for name, state in states.items() if state != "not fetched"} == {
        "nli": "there",
        "sts": "incomplete",
    }
    assert set(states) == {data_set.name for data_set in catalog.PUBLIC_SETS}


SETTINGS = ["train.examples=640", "train.evaluations=2"]


def called(cse: list[str], folder: Path, environment: dict[str, str], *words: str) -> str:
    kept = {name: value for name, value in os.environ.items() if cse[1:] or name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([*cse, *words], cwd=folder, env=kept | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("installed", ["checkout", "wheel"])
def test_two_commands_from_nothing_to_a_table(installed, request, data_dir, tmp_path):
    wheel = installed == "wheel"
    cse = [str(request.getfixturevalue("cse_of_wheel"))] if wheel else [sys.executable, "-m", "cse"]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for folder in ("STS", "SICK"):
            tar.add(data_dir / "senteval" / "downstream" / folder, folder)
    sentences = (data_dir / "wiki" / "wiki1m_for_simcse.first.txt").read_bytes()
    with publish({"wiki1m_for_simcse.txt": sentences, "senteval.tar": archive.getvalue()}) as server:
        server.fault = "cut"
        hub = {"HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1", "COLUMNS": "80"}
        fetched = called(cse, tmp_path, hub, "data", "get", "wiki1m", "sts")
    assert "use it: --data data" in fetched
    assert (tmp_path / "data" / "wiki" / "wiki1m_for_simcse.txt").read_bytes() == sentences
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    words = ["reproduce", "E7", "--profile", "tiny", "--data", "data", "--seeds", "1", *settings, "-y"]
    page = called(cse, tmp_path, {}, *words)
    rows = re.findall(r"^\| *0\.\d+ *\| *1 \| +(\d\d\.\d\d) ", page, re.MULTILINE)
    assert len(rows) == 8 and all(40 < float(score) < 80 for score in rows), page
