"""Suite `mteb:TASK`: a task of MTEB by its name, as `mteb:STSBenchmark`, scored by the package `mteb` itself.

The task decides what is measured: its data at the revision that the package pins, its split and its main score. The
vectors come from the model under test, and cosines are in fp64. Data come from the hub or from its cache.
"""

import contextlib
import functools
import importlib.metadata
import importlib.util
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cse_train.data_paths import DataPaths
from cse_train.evaluate.correlation import round_cosines
from cse_train.evaluate.vectors import TextModel, protocol_of, unit
from cse_train.fields import ConfigError, Json, nearest
from cse_train.results import Score
from cse_train.text.files import texts_hash

NAME = "mteb:TASK"
PREFIX = "mteb:"
COLUMNS: tuple[str, ...] = ()
NEEDS: tuple[str, ...] = ()


def evaluate(model: TextModel, paths: DataPaths, *, members: Sequence[str] = ()) -> list[Score]:
    """Returns one score per task: its main score times 100, the mean over splits and languages; details have all."""
    return [_score(model, name) for name in members]


def member_hash(name: str) -> str:
    """Returns the hash of a task's data, by the package's pinned revision. ConfigError: no package, task or data."""
    source = sorted(_load_task(name).metadata.dataset.items())
    return texts_hash([_version(), *(f"{key} {value}" for key, value in source)])


class MtebEncoder:
    """Adapts a TextModel to the encoder interface of mteb's evaluators."""

    def __init__(self, model: TextModel) -> None:
        import mteb

        self._model = model
        self.mteb_model_meta = mteb.models.ModelMeta.create_empty({"name": f"cse-search/{model.content_hash[:16]}"})

    def encode(self, inputs: Any, *, task_metadata: Any, prompt_type: Any = None, **options: Any) -> np.ndarray:
        """Returns float32 [N, D] of mteb's batches of texts, behind the prompt for the task and the prompt type."""
        prompt = prompt_of(self._model.prompts, task_metadata, prompt_type)
        return self._model.embed([text for batch in inputs for text in batch["text"]], prompt)

    def similarity(self, left_ND: Any, right_MD: Any) -> Any:
        """Returns the cosines of all pairs of rows, float64 [N, M], as a tensor."""
        return _tensor(round_cosines(unit(np.asarray(left_ND)) @ unit(np.asarray(right_MD)).T))

    def similarity_pairwise(self, left_ND: Any, right_ND: Any) -> Any:
        """Returns the cosines of row with row, float64 [N], as a tensor."""
        return _tensor(round_cosines((unit(np.asarray(left_ND)) * unit(np.asarray(right_ND))).sum(axis=1)))


def prompt_of(prompts: Mapping[str, str], task: Any, kind: Any) -> str | None:
    """Returns the prompt that mteb uses for a SentenceTransformer with these prompts; None leaves the model's default.

    Source: mteb/models/abs_encoder.py, get_prompt_name. Queries and documents without a prompt under their name have
    none: sentence-transformers' encode_query and encode_document take no default.
    """
    side = "" if kind is None else f"-{getattr(kind, 'value', kind)}"
    names = dict.fromkeys((f"{task.name}{side}", task.name, f"{task.type}{side}", task.type, side[1:]))
    return next((prompts[name] for name in names if name in prompts), "" if side else None)


def _tensor(values: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(values)


def _score(model: TextModel, name: str) -> Score:
    task = _load_task(name)
    import mteb

    with _quiet():
        result = mteb.evaluate(MtebEncoder(model), task, cache=None, show_progress_bar=False).task_results[0]
    splits, rule = ", ".join(task.metadata.eval_splits), f"{task.metadata.main_score}, mteb {_version()}"
    main, value = task.metadata.main_score, 100.0 * float(result.get_score())
    return Score(
        suite=name,
        metric=main,
        value=value,
        protocol=protocol_of(model, name, splits, member_hash(name), aggregation="mean over languages", rule=rule),
        details={"scores": {split: [_plain(scores) for scores in each] for split, each in result.scores.items()}},
        unscored=f"mteb has no {main} for it" if math.isnan(value) else "",
        headline=True,
    )


def _plain(numbers: Any) -> Json:
    """Returns the numbers and strings of mteb's scores for one language, without nested values."""
    return {key: value for key, value in dict(numbers).items() if isinstance(value, str | int | float)}


def _version() -> str:
    return importlib.metadata.version("mteb")


@functools.cache
def _load_task(name: str) -> Any:
    """Loads mteb's task with its data. ConfigError: no package, no such task, no text task, or no data."""
    if importlib.util.find_spec("mteb") is None:
        raise ConfigError([f"missing package: suite={name} needs mteb; pip install 'cse-search[mteb]'"])
    import mteb

    task_name = name.removeprefix(PREFIX)
    try:
        task = mteb.get_task(task_name)
    except KeyError as error:
        tasks = [each.metadata.name for each in mteb.get_tasks(exclude_superseded=False)]
        raise ConfigError([f"unknown task of mteb: suite={name}; {nearest(task_name, tasks)}"]) from error
    if task.metadata.modalities != ["text"]:
        kinds = " and ".join(task.metadata.modalities)
        raise ConfigError([f"no text task: suite={name} has {kinds}; give one of text"])
    try:
        with _quiet():
            task.load_data()
    except Exception as error:  # whatever the hub, the cache or the task's own transformation raises
        line = str(error).strip().partition("\n")[0]
        lines = [f"missing data: suite={name} cannot be read ({line}); load it once where the hub is"]
        raise ConfigError(lines) from error
    return task


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences mteb's log below errors inside the block."""
    log = logging.getLogger("mteb")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
