"""The user's own corpora and sets beside the other inputs: read once before anything is trained."""

from collections.abc import Iterable
from dataclasses import replace

from cse_train.data_paths import DataPaths
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import set_hash
from cse_train.evaluate.transfer.loaders import load_task
from cse_train.evaluate.user_sets.fingerprint import SHIPPED_TESTS, fingerprint_of
from cse_train.evaluate.user_sets.judgements import load_judgements
from cse_train.evaluate.user_sets.kinds import open_user_file
from cse_train.fields import ConfigError
from cse_train.text.corpora.tables import open_table
from cse_train.text.corpora.user_text import corpus_columns, is_table
from cse_train.text.sources import open_source
from cse_train.user_files import UserFile, map_files
from search_spaces.user_data.in_space import two_of_one_name


def add_user_files(paths: DataPaths, files: Iterable[UserFile]) -> DataPaths:
    """The inputs with these files. Those that are not there are left for the plan, which names them as missing.

    ConfigError with a line for each other problem: two of one name, a file that cannot be read as what it is for, a dev
    set that is a test set, of the user's or of ours.
    """
    listed = list(dict.fromkeys([*paths.files, *files]))
    problems = two_of_one_name(listed)
    if problems:
        raise ConfigError(problems)
    paths = replace(paths, files=tuple(listed))
    there = [file for file in listed if _is_there(file)]
    for file in there:
        try:
            _ = open_source(file.name, paths) if file.role == "corpus" else set_hash(file.name, paths)
        except ConfigError as error:
            problems += error.problems
    if not problems:
        problems = _tests_as_dev([file for file in there if file.role != "corpus"])
    if problems:
        raise ConfigError(problems)
    return paths


def _tests_as_dev(files: Iterable[UserFile]) -> list[str]:
    """A line for each dev set whose texts are those of a test set."""
    prints = {file: fingerprint_of(file) for file in files}
    tests = SHIPPED_TESTS | {text: file.name for file, text in prints.items() if file.role == "test"}
    return [
        f"test set as dev: {file.file} of {file.name} has the texts of {tests[text]}; give other data as `dev:`"
        for file, text in prints.items()
        if file.role == "dev" and text in tests
    ]


def describe_files(paths: DataPaths) -> list[str]:
    """A line for each file that is there: what it is, how much it has, and which column was taken for what."""
    return [_describe(file, paths) for file in map_files(paths.files).values() if _is_there(file)]


def _is_there(file: UserFile) -> bool:
    return file.path is None or file.path.exists()


def _describe(file: UserFile, paths: DataPaths) -> str:
    if file.role == "corpus":
        columns = corpus_columns(file, open_table(file)) if is_table(file) else {}
        what = ", ".join(columns) if columns else "a sentence a line"
    else:
        open_file = open_user_file(file)
        columns = dict(open_file.columns)
        counts = {
            "ratings": lambda: f"{len(load_pairs(file.name, paths))} rated pairs",
            "labels": lambda: f"{len(load_task(file.name, paths).splits['all'].labels)} labelled sentences",
            "retrieval": lambda: (
                f"{len(load_judgements(file).queries)} queries, "
                f"{len(load_judgements(file).documents)} documents, {file.metric}"
            ),
        }
        what = counts[open_file.kind]()
    taken = ", ".join(f"{wanted}={name}" for wanted, name in columns.items())
    return f"{file.role} {file.name}: {what} of {file.file}" + (f" ({taken})" if taken else "")
