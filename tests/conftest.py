"""What every test may ask for: real data when it is there, one Ray cluster, and a token cache of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]
DATA = REPO.parent / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tests share the cores: torch computes with one thread."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The token cache of this session, for worker processes too."""
    before = os.environ.get("CSE_CACHE")
    folder = tmp_path_factory.mktemp("cache")
    os.environ["CSE_CACHE"] = str(folder)
    yield folder
    os.environ.pop("CSE_CACHE") if before is None else os.environ.update(CSE_CACHE=before)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Real sentences and SentEval's sets, beside the repository; the test is skipped where they are absent."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}")
    return DATA


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The session's one Ray cluster of 2 CPUs; the process works from a neutral folder while it lives."""
    from cluster import ray_cluster

    os.environ["PYTHONPATH"] = str(REPO / "tests" / "cluster")  # workers find stub_training
    with ray_cluster.ray_cluster(tmp_path_factory.mktemp("ray"), num_cpus=2):
        yield
