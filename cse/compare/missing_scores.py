"""Scores what a comparison lacks: a folder for this comparison alone, runs into their ledger."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.answers.lookup import spaces_of_run
from analysis.answers.models import Model
from analysis.ledger import Ledger
from cse.cli import exit, options, screen
from cse.cli.loader import deferred
from cse.compare.question import ScoringOptions
from cse_train.data_paths import DataPaths
from cse_train.evaluate.suites.registry import is_known
from cse_train.fields import ConfigError
from cse_train.user_files import map_files

with deferred(__name__):
    from cse.compare import scoring as scoring
    from search_spaces import user_data as user_data
    from search_spaces.identity import user_files as user_files


@dataclass(frozen=True)
class Scoring:
    """Suites and settings with which models that lack scores are evaluated before a comparison."""

    suites: Sequence[str] | None
    """Suites to score; None means the suites of which the other model has scores."""
    paths: DataPaths
    pooler: str | None = None
    """Pooler of a plain encoder folder, which has none of its own."""
    max_length: int | None = None
    """Longest input in tokens; None for the model's own limit."""

    @classmethod
    def of(cls, scoring_options: ScoringOptions) -> "Scoring":
        """Reads suites given by name or by file, as `cse eval` takes them, and prints a line on what each file holds.

        Raises ConfigError for a file that cannot be read.
        """
        paths = options.data_paths(scoring_options.data, None, scoring_options.senteval)
        if not scoring_options.suite:
            return cls(None, paths, scoring_options.pooler, scoring_options.max_length)
        names, files = user_data.read_suites(list(scoring_options.suite), Path.cwd())
        paths = user_files.add_user_files(paths, files)
        exit.say(user_files.describe_files(paths))
        return cls(list(dict.fromkeys(names)), paths, scoring_options.pooler, scoring_options.max_length)

    def with_sets_of(self, models: Sequence[Model], ledger: Ledger | None) -> "Scoring":
        """Returns a copy with the user's data sets of the models' sweeps added; names already there are kept."""
        runs = [model.runs[0] for model in models if model.runs]
        spaces = [space for run in runs for space in spaces_of_run(run.signature, ledger)] if ledger else []
        files = map_files([*(file for space in spaces for file in space.files), *self.paths.files])
        return replace(self, paths=replace(self.paths, files=tuple(files.values())))

    def add_scores(
        self, models: tuple[Model, Model], columns: Sequence[str] | None, ledger: Ledger | None
    ) -> tuple[Model, Model]:
        """Returns two models with the scores that their comparison needs: all of a folder; of runs, `suites`."""
        left, right = models
        return self._add(left, right, columns, ledger), self._add(right, left, columns, ledger)

    def _add(self, model: Model, other: Model, columns: Sequence[str] | None, ledger: Ledger | None) -> Model:
        if model.folder is not None:
            names = self.suites or columns or suites_to_score(other, ledger, self.paths)
            screen.note(f"scoring {model.name}")
            pooler, length = model.pooler or self.pooler, model.max_length or self.max_length
            # The length in a model's name is a training setting, which may be above the encoder's positions.
            strict = model.max_length is None
            scores = [
                scoring.score_folder(folder, names, self.paths, pooler, length, strict=strict)
                for folder in model.folders
            ]
            return replace(model, scores=scores)
        if self.suites and ledger is not None:
            screen.note(f"scoring {len(model.runs)} runs of {model.name}")
            scoring.score_runs(model, self.suites, ledger, self.paths)
        return model


def suites_to_score(other: Model, ledger: Ledger | None, paths: DataPaths) -> list[str]:
    """Returns the suites on which to score a model folder by default: the other model's suites, else its dev set.

    Raises ConfigError if the dev set is a user's own file that no space of the other model's sweeps names.
    """
    signatures = [run.signature for run in other.runs]
    stored = dict.fromkeys(score.suite for score in ledger.scores(signatures)) if ledger else {}
    names = [name for name in stored if is_known(name) or paths.data_set(name)]
    if not names and other.dev and not is_known(other.dev) and paths.data_set(other.dev) is None:
        line = f"no set to score: {other.name} was picked on {other.dev}, whose file no space of its sweeps names"
        raise ConfigError([f"{line}; give --suite FILE"])
    return names or [other.dev or "sts_dev"]
