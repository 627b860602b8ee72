"""The newest sentence-transformers and one of version 3 load exported folders and embed as we do."""

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest
import torch

from cse_train.encoder.backbone import load_backbone
from cse_train.encoder.packing import pack_lists
from cse_train.export.export import export
from cse_train.text import generated

TEXTS = ["Rain", "", *generated.sentences(98, seed=4)]
FOLDERS = {
    "mlp": ("simcse", {"pooler": "cls"}),
    "first_last": ("simcse", {"pooler": "first_last"}),
    "d2cse": ("d2cse", {"pooler": "cls", "cls_prompt": True}),
}
OLD = ("transformers", "tokenizers", "huggingface_hub", "datasets")
"""What version 3 needs older; `datasets`, which it imports when it is there, goes with them."""
READ = """
import json, sys
import numpy as np, sentence_transformers, transformers
texts = json.load(open(sys.argv[1], encoding="utf8"))
for folder in sys.argv[2:]:
    model = sentence_transformers.SentenceTransformer(folder, device="cpu", trust_remote_code=True)
    np.save(folder + ".npy", model.encode(texts, batch_size=16, show_progress_bar=False))
print(json.dumps([sentence_transformers.__version__, transformers.__version__]))
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def exported(checkpoint, tmp_path: Path) -> dict[Path, np.ndarray]:
    """Folder -> our embeddings of TEXTS."""
    found = {}
    for name, (method, options) in FOLDERS.items():
        best, model = checkpoint(method, "words-l2-h128", **options)
        export(best, tmp_path / name)
        ids = load_backbone("words-l2-h128").tokenizer(TEXTS, truncation=True, max_length=64)["input_ids"]
        with torch.inference_mode():
            found[tmp_path / name] = model.encode(pack_lists(ids)).numpy()
    return found


def environment(place: Path, wanted: str, left_out: tuple[str, ...]) -> Path:
    """The Python of a new environment with `wanted`; all packages but those left out are read from ours."""
    borrowed = place / "borrowed"
    borrowed.mkdir(parents=True)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        ours = entry.suffix == ".pth" or entry.name.startswith(("__editable__", "cse_search", "pip", "sentence_"))
        if not ours and not entry.name.startswith(left_out):
            (borrowed / entry.name).symlink_to(entry)
    venv.create(place / "venv", with_pip=True)
    (packages,) = (place / "venv").glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf8")
    python = place / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        pytest.skip(f"pip cannot install {wanted}: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.mark.parametrize(
    ("wanted", "left_out"), [("sentence-transformers", ()), ("sentence-transformers==3.4.1", OLD)], ids=["newest", "3"]
)
def test_it_embeds_as_we_do(exported, tmp_path, wanted, left_out) -> None:
    python = environment(tmp_path / "other", wanted, left_out)
    (tmp_path / "texts.json").write_text(json.dumps(TEXTS), encoding="utf8")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    told = kept | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    command = [python, "-c", READ, str(tmp_path / "texts.json"), *map(str, exported)]
    done = subprocess.run(command, capture_output=True, text=True, env=told, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    versions = json.loads(done.stdout.splitlines()[-1])
    assert wanted.partition("==")[2] in versions[0]
    for folder, expected in exported.items():
        largest = np.abs(np.load(f"{folder}.npy") - expected).max()
        print(f"sentence-transformers {versions[0]}, transformers {versions[1]}, {folder.name}: {largest:.1e}")
        assert largest < 1e-5
