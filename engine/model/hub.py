"""Where a model's files come from: a folder, or the Hugging Face hub through its local cache."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import UnsupportedModel

CONFIG, INDEX, SINGLE = "config.json", "model.safetensors.index.json", "model.safetensors"
MAIN = "main"  # the branch that an id without a revision means
SMALL_FILES = (".json", ".jinja", ".model", "merges.txt", "vocab.txt")
OTHER_WEIGHTS = (".bin.index.json", ".msgpack.index.json", ".h5.index.json")
HOW_TO_NAME = "Name a folder, or an id such as 'Qwen/Qwen3-8B'."


@dataclass(frozen=True)
class ModelFolder:
    """A model's files.

    Attributes:
        path: the folder that holds them.
        name: of the model, for people.
        revision: the commit of a model from the hub; "" for a folder of one's own.
    """

    path: Path
    name: str
    revision: str = ""


def find_model(model: str, *, weights: bool = True) -> ModelFolder:
    """Find a model's files, and fetch what is missing from the hub.

    An id without a revision means what the local cache holds, and the hub's main branch if it holds
    nothing: a model does not change under a server because its authors change it.

    Args:
        model: a folder; or an id, perhaps with a revision: "owner/name" or "owner/name@revision".
        weights: whether weights are needed, too; without, they are never fetched.
    Raises: UnsupportedModel with one sentence that says what is wrong with the name, the files or
        the network.
    """
    folder = Path(model)
    if folder.is_dir():
        _refuse_gguf(model, [path.name for path in folder.iterdir()])
        return ModelFolder(folder, folder.name or folder.resolve().name)
    if folder.suffix == ".gguf":
        raise UnsupportedModel(_gguf(model))
    if folder.is_file():
        raise UnsupportedModel(f"'{model}' is a file: name the folder that it lies in.")
    name, _, revision = model.partition("@")
    if not _is_id(name):
        raise UnsupportedModel(f"There is no folder '{model}'. {HOW_TO_NAME}")
    found = _cached(name, revision or MAIN, weights=weights)
    return found or _fetch(name, revision or MAIN, weights=weights)


def _is_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not name.startswith((".", "~"))


def _cached(name: str, revision: str, *, weights: bool) -> ModelFolder | None:
    """The folder in the local cache, if it holds all that is needed."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(name, CONFIG, revision=revision)
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    if weights and not _has_weights(folder):
        return None
    return ModelFolder(folder, name.rpartition("/")[2], folder.name)


def _has_weights(folder: Path) -> bool:
    """Whether all safetensors files of a model lie in its folder."""
    index = folder / INDEX
    if index.is_file():
        return all((folder / file).is_file() for file in shards(index))
    return (folder / SINGLE).is_file()


def shards(index: Path) -> list[str]:
    """Names of the files that hold a model's weights, from their index."""
    return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))


def _fetch(name: str, revision: str, *, weights: bool) -> ModelFolder:
    import httpx
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        info = HfApi().model_info(name, revision=revision)
        names = [file.rfilename for file in info.siblings or ()]
        wanted = _wanted(name, names, weights=weights)
        if weights and INDEX in wanted:
            index = Path(hf_hub_download(name, INDEX, revision=revision))
            wanted += shards(index)
        path = snapshot_download(name, revision=revision, allow_patterns=wanted)
    except GatedRepoError as error:
        raise UnsupportedModel(
            f"'{name}' is open to those alone who accepted its licence on the Hugging Face hub: do "
            "so, and set HF_TOKEN to a token of yours."
        ) from error
    except RevisionNotFoundError as error:
        raise UnsupportedModel(f"'{name}' has no revision '{revision}'.") from error
    except RepositoryNotFoundError as error:
        raise UnsupportedModel(
            f"There is no folder '{name}', and no such model on the Hugging Face hub, or it is a "
            "private one that needs HF_TOKEN: check the spelling."
        ) from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError, httpx.TransportError) as error:
        raise UnsupportedModel(
            f"'{name}' is neither a folder nor in the local Hugging Face cache, and the hub cannot "
            "be reached: check the network, or name a folder."
        ) from error
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UnsupportedModel(f"'{name}' cannot be fetched: {reason}") from error
    return ModelFolder(Path(path), name.rpartition("/")[2], Path(path).name)


def _wanted(name: str, names: Sequence[str], *, weights: bool) -> list[str]:
    """The files to fetch: no second copy of the weights, nothing from folders within.

    Raises: UnsupportedModel if there are no safetensors weights.
    """
    top = [file for file in names if "/" not in file]
    small = [
        file
        for file in top
        if file.endswith(SMALL_FILES) and not file.endswith((*OTHER_WEIGHTS, ".index.json"))
    ]
    if INDEX in top:
        return [*small, INDEX]
    if not weights or SINGLE in top:
        return [*small, SINGLE] if weights else small
    _refuse_gguf(name, top)
    if any(file.endswith((".bin", ".pt", ".pth")) for file in top):
        raise UnsupportedModel(
            f"'{name}' has its weights as pickle files alone, whose loading can run code: Lectern "
            "loads safetensors. Look for a revision or a copy that has them."
        )
    raise UnsupportedModel(f"'{name}' holds no {SINGLE}.")


def _refuse_gguf(model: str, names: Sequence[str]) -> None:
    if CONFIG not in names and any(name.endswith(".gguf") for name in names):
        raise UnsupportedModel(_gguf(model))


def _gguf(model: str) -> str:
    return (
        f"'{model}' is in GGUF, the format of llama.cpp, which cannot be served: name the "
        "safetensors model that it was made from."
    )
