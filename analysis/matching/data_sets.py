"""Groups runs by the data and code that made them. A table averages one group only, and says which one."""

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.ledger import RunRow
from analysis.run_state import RunState
from cse_train.config import complete, parse_run
from cse_train.fields import ConfigError
from search_spaces.identity.method_code import AS_RELEASED
from search_spaces.identity.signature import CODE, LENGTH, list_signatures
from search_spaces.keys import SEED

NAMED_BY = {
    "encoder": "train.encoder",
    "tokenizer": "train.encoder",
    "corpus": "train.corpus",
    "dev": "train.dev",
    "version": "method",
    "code": "method",
}
"""Input of a run -> the setting that names it; an option of the method names an input that only the method has."""
NO_HASH = ("version", "workers")
"""Inputs whose value is a number, not a content hash."""
DATA_DIGITS = 8
"""Number of hexadecimal digits of a content hash in messages."""

Content = tuple[str, str, str]
"""Input, its name in the settings, and the hash of its content."""


@dataclass(frozen=True)
class DataSet:
    """Runs on one data set by one code, and the runs on others, which a table leaves out."""

    signatures: frozenset[str]
    left_out: Sequence[RunRow]
    contents: frozenset[Content]
    """Contents of the inputs of the chosen runs."""
    available_hashes: Mapping[str, str | int] = field(default_factory=dict)
    """Input -> hash of the content at the paths that a cell names."""

    def notes(self) -> list[str]:
        """Returns a line on the runs that are left out: in which inputs they differ, and how to show them."""
        other_contents = sorted({content for run in self.left_out for content in contents(run)} - self.contents)
        if not self.signatures and self.available_hashes:  # nothing is left to compare with but what lies here
            other_contents = [content for content in other_contents if content[0] in self.available_hashes]
            other_contents = [content for content in other_contents if content[2] != self.available_hashes[content[0]]]
        if not other_contents:
            return []
        names = ", ".join(f"{part} {shorten_hash(value)}" for part, _, value in other_contents)
        runs = "1 run" if len(self.left_out) == 1 else f"{len(self.left_out)} runs"
        prefix = next((shorten_hash(value) for part, _, value in other_contents if part not in NO_HASH), None)
        advice = f"; --data-hash {prefix} shows them" if prefix else ""
        return [f"{runs} on other inputs or by other code: not shown ({names}){advice}"]


def contents(run: RunRow) -> frozenset[Content]:
    """Returns the inputs of a run with their hashes, without its length, which follows from the corpus."""
    inputs: dict[str, str | int] = {CODE: AS_RELEASED, **run.identity}
    return frozenset(
        (part, str(run.config.get(NAMED_BY.get(part, part), "")), str(value))
        for part, value in inputs.items()
        if part != LENGTH
    )


def _map_contents(runs: Iterable[RunRow]) -> dict[str, frozenset[Content]]:
    """Returns signature -> `contents` of the run; runs with equal settings and inputs share one set."""
    cache: dict[tuple[object, ...], frozenset[Content]] = {}
    by_signature = {}
    for run in runs:
        key = (run.settings or run.signature, *run.identity.items())
        if key not in cache:
            cache[key] = contents(run)
        by_signature[run.signature] = cache[key]
    return by_signature


def one_data_set(runs: Sequence[RunRow], every: Sequence[RunRow], data_hash: str | None = None) -> DataSet:
    """Chooses, from runs on several data sets, those on the newest, finished runs first: a table has one content per
    name.

    `every` holds all runs of the table; those not chosen are left out. Each chosen run has an input whose hash begins
    with `data_hash`. Raises ConfigError where no run has one.
    """
    contents_of = _map_contents({run.signature: run for run in (*every, *runs)}.values())
    candidates = [
        run
        for run in runs
        if data_hash is None
        or any(part not in NO_HASH and value.startswith(data_hash) for part, _, value in contents_of[run.signature])
    ]
    if data_hash and not candidates:
        hashes = sorted(
            {f"{part} {shorten_hash(value)}" for run in every for part, _, value in contents_of[run.signature]}
        )
        raise ConfigError([f"no such data: --data-hash={data_hash}; the runs have {', '.join(hashes) or 'none'}"])
    newest: dict[tuple[str, str], str] = {}
    latest_first = sorted(candidates, key=lambda run: (run.state == RunState.DONE, run.updated))[::-1]
    # Oldest first, so that the newest content of a name overwrites the others.
    for content in reversed(dict.fromkeys(contents_of[run.signature] for run in latest_first)):
        newest |= {(part, name): value for part, name, value in content}
    newest_contents = {(part, name, value) for (part, name), value in newest.items()}
    chosen_runs = [run for run in candidates if contents_of[run.signature] <= newest_contents]
    signatures = frozenset(run.signature for run in chosen_runs)
    chosen_contents = frozenset(itertools.chain(*{contents_of[run.signature] for run in chosen_runs}))
    return DataSet(signatures, [run for run in every if run.signature not in signatures], chosen_contents)


def shorten_hash(value: str) -> str:
    """Returns the first digits of a hash; a shorter value is returned whole."""
    return value[:DATA_DIGITS] if len(value) >= 2 * DATA_DIGITS else value


def add_versions(runs: Iterable[RunRow]) -> list[RunRow]:
    """Returns runs with the VERSION of the method's code among their inputs, `unknown` where no VERSION fits the
    signature.

    A ledger row does not hold it: of the VERSIONs up to today's, the one that gives the row's signature counts.
    """
    signs: dict[str, Mapping[int, Callable[[int], str]]] = {}
    return [_add_version(run, signs) for run in runs]


def _add_version(run: RunRow, signs: dict[str, Mapping[int, Callable[[int], str]]]) -> RunRow:
    settings = {key: value for key, value in run.config.items() if key != SEED}
    key = json.dumps([run.method, settings, run.identity], sort_keys=True)
    if key not in signs:
        try:
            config = parse_run(complete({"method": run.method, **settings}))
            signs[key] = list_signatures(config, run.identity)
        except ConfigError:  # of a method or an option that is gone
            signs[key] = {}
    versions = [version for version, sign in signs[key].items() if sign(run.seed) == run.signature]
    return replace(run, identity={**run.identity, "version": versions[0] if versions else "unknown"})
