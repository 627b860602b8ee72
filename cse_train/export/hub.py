"""Pushes an exported folder to the Hugging Face hub."""

import os
import re
from pathlib import Path

import huggingface_hub
from huggingface_hub.errors import LocalTokenNotFoundError

from cse_train.fields import ConfigError

REPOSITORY_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def require_hub(repo: str) -> None:
    """Raises ConfigError, one line, where a push to `repo` (OWNER/NAME) cannot begin: checked before an export."""
    if not REPOSITORY_NAME.fullmatch(repo):
        raise ConfigError([f"wrong name: push_to_hub={repo}; give OWNER/NAME"])
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "on", "true", "yes"):
        raise ConfigError([f"offline: push_to_hub={repo} with HF_HUB_OFFLINE set; unset it"])
    try:
        huggingface_hub.HfApi().whoami()
    except LocalTokenNotFoundError as error:
        raise ConfigError([f"no token: push_to_hub={repo}; run `hf auth login`, or set HF_TOKEN"]) from error
    except Exception as error:  # each version of the client has another library for HTTP
        raise ConfigError(
            [f"the hub refused: push_to_hub={repo} ({_brief(error)}); see HF_TOKEN and HF_ENDPOINT"]
        ) from error


def push(folder: Path, repo: str, *, private: bool, message: str) -> str:
    """Uploads a folder to a repository, which is created if missing, and returns the address of the commit.

    ConfigError, one line, where the hub refuses; the folder stays as it is.
    """
    api = huggingface_hub.HfApi()
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repo, folder_path=folder, commit_message=message).commit_url)
    except Exception as error:
        lines = [f"not pushed: push_to_hub={repo} ({_brief(error)}); {folder} is complete, `hf upload {repo} {folder}`"]
        raise ConfigError(lines) from error


def _brief(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
