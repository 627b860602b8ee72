"""Checks the user's own corpora and sets, which are read once before anything is trained."""

from collections.abc import Iterable
from dataclasses import replace

from cse_train.data_paths import DataPaths
from cse_train.evaluate.judgements import load_judgements
from cse_train.evaluate.pairs import load_pairs
from cse_train.evaluate.suites.registry import SHIPPED_TESTS, fingerprint_of, set_hash
from cse_train.evaluate.tasks import load_task
from cse_train.evaluate.user_sets import is_three_files, open_user_file
from cse_train.fields import ConfigError
from cse_train.text.corpora import open_source
from cse_train.text.file_corpora import (
    Survey,
    corpus_columns,
    file_source,
    is_table,
    keeps_blanks,
    survey_file,
    survey_source,
)
from cse_train.text.tables import list_unread, open_table
from cse_train.user_files import UserFile, map_files
from search_spaces.user_data import two_of_one_name


def add_user_files(paths: DataPaths, files: Iterable[UserFile]) -> DataPaths:
    """Returns the inputs with these files added; absent files are left for the plan, which reports them as missing.

    Raises ConfigError with a line for each other problem: two of one name, a file that cannot be read for its role, and
    a dev set that is a test set, shipped or the user's.
    """
    listed = list(dict.fromkeys([*paths.files, *files]))
    problems = two_of_one_name(listed)
    if problems:
        raise ConfigError(problems)
    paths = replace(paths, files=tuple(listed))
    present = [file for file in listed if _is_there(file)]
    for file in present:
        try:
            _ = open_source(file.name, paths) if file.role == "corpus" else set_hash(file.name, paths)
        except ConfigError as error:
            problems += error.problems
    if not problems:
        prints = {file: fingerprint_of(file) for file in present if file.role != "corpus"}
        tests = SHIPPED_TESTS | {text: file.name for file, text in prints.items() if file.role == "test"}
        problems = [
            f"test set as dev: {file.file} of {file.name} has the texts of {tests[text]}; give other data as `dev:`"
            for file, text in prints.items()
            if file.role == "dev" and text in tests
        ]
    if problems:
        raise ConfigError(problems)
    return paths


def require_corpora(paths: DataPaths) -> None:
    """Reads the user's own training text to its end.

    Raises ConfigError with a line for each that cannot be trained on.
    """
    problems = []
    for file in map_files(paths.files).values():
        try:
            if file.role == "corpus" and _is_there(file):
                survey_file(file)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def describe_files(paths: DataPaths) -> list[str]:
    """Returns a line for each present file: its kind, its counts, and which column was taken for what.

    Raises ConfigError as `require_corpora` does.
    """
    require_corpora(paths)
    present = [file for file in map_files(paths.files).values() if _is_there(file)]
    each = {replace(file, name="") if file.role == "corpus" else file: file for file in reversed(present)}
    lines = [_describe(file, paths) for file in reversed(each.values())]
    if paths.train_file is not None and paths.corpus("file") is None:  # read by the positions of its columns
        source = file_source("file", paths.train_file)
        columns = f"{', '.join(source.columns)} of {paths.train_file} by their places"
        lines.append(f"corpus file: {columns}; {_tell(survey_source(source), None)}")
    return lines


def _tell(counted: Survey, file: UserFile | None) -> str:
    """Returns a corpus's counts in words, and what becomes of empty and repeated rows."""
    parts = ["1 row" if counted.rows == 1 else f"{counted.rows:,} rows"]
    if counted.empty:
        blank = file is None or (file.on_empty is None and keeps_blanks(file))
        fate = "trained on as blanks (`on_empty: skip` leaves them out)" if blank else "left out"
        parts.append(f"{counted.empty:,} empty, {fate}")
    if counted.duplicates:
        fate = "left out" if file and file.deduplicate else "trained on (`deduplicate: true` leaves them out)"
        parts.append(f"{counted.duplicates:,} equal to an earlier one, {fate}")
    half, most, longest = counted.words
    return "; ".join([*parts, f"words: median {half:,}, 99% up to {most:,}, longest {longest:,}"])


def _is_there(file: UserFile) -> bool:
    return file.path is None or file.path.exists()


def _describe(file: UserFile, paths: DataPaths) -> str:
    counted, table = "", None
    if file.role == "corpus":
        table = open_table(file) if is_table(file) else None
        columns = corpus_columns(file, table) if table else {}
        content = ", ".join(columns) if columns else "a sentence a line"
        counted = f"; {_tell(survey_file(file), file)}"
    else:
        open_file = open_user_file(file)
        table = None if is_three_files(file) else open_file.table
        columns = dict(open_file.columns) if table else {}
        counts = {
            "ratings": lambda: f"{len(load_pairs(file.name, paths))} rated pairs",
            "labels": lambda: f"{len(load_task(file.name, paths).splits['all'].labels)} labelled sentences",
            "retrieval": lambda: (
                f"{len(load_judgements(file).queries)} queries, "
                f"{len(load_judgements(file).documents)} documents, {file.metric}"
            ),
        }
        content = counts[open_file.kind]()
        notes = load_judgements(file).notes() if open_file.kind == "retrieval" else []
        counted = "".join(f"; {note}" for note in notes)
    column_names = ", ".join(f"{role}={name}" for role, name in columns.items())
    unread = ", ".join(list_unread(file, table, columns.values()) if table else [])
    parts = (f" ({column_names})" if column_names else "", f"; not read: {unread}" if unread else "", counted)
    return f"{file.role} {file.name}: {content} of {file.file}" + "".join(parts)
