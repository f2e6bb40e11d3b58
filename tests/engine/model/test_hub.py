"""Names of models: folders, ids of the hub, and what is neither."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from common.errors import UnsupportedModel
from engine.config import ModelConfig
from engine.model.hub import find_model
from engine.model.loader import load_model
from tests.engine.model.hub_server import Hub, serve_hub
from tests.models import FAMILIES, byte_tokenizer, random_model

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
NAME = "someone/tiny-llama"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    random_model(FAMILIES["llama"]).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def repository(saved: Path, tmp_path: Path) -> Path:
    """A repository's files, with copies of the weights that nobody needs."""
    folder = tmp_path / "repository"
    shutil.copytree(saved, folder)
    for name in ("pytorch_model.bin", "consolidated.safetensors", "original/model.safetensors",
                 "original/params.json", "onnx/config.json", "README.md", "flax_model.msgpack",
                 "pytorch_model.bin.index.json"):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub of one's own, and an empty cache."""
    opened = Hub()
    with serve_hub(opened) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            url + "/{repo_id}/resolve/{revision}/{filename}",
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        yield opened


def test_an_id_is_fetched_without_second_copies_of_its_weights(hub: Hub, repository: Path) -> None:
    commit = hub.add(NAME, repository)
    model = load_model(ModelConfig(NAME, device="cpu"))
    assert model.name == "tiny-llama"
    assert set(hub.fetched) == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "chat_template.jinja",
    }  # fmt: skip
    assert find_model(NAME).revision == commit


def test_shards_are_fetched_as_their_index_names_them(hub: Hub, repository: Path) -> None:
    shutil.move(repository / "model.safetensors", repository / "model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-1.safetensors"}}
    (repository / "model.safetensors.index.json").write_text(json.dumps(index))
    (repository / "model.fp32-1.safetensors").write_text("a variant")
    hub.add(NAME, repository)
    folder = find_model(NAME).path
    assert {path.name for path in folder.glob("*.safetensors")} == {"model-1.safetensors"}


def test_the_revision_is_pinned_in_the_fingerprint(hub: Hub, repository: Path, saved: Path) -> None:
    hub.add(NAME, repository)
    first = load_model(ModelConfig(NAME, device="cpu"))
    hub.add(NAME, repository, "v2")
    second = load_model(ModelConfig(f"{NAME}@v2", device="cpu"))
    own = load_model(ModelConfig(str(saved), device="cpu"))
    assert len({first.fingerprint, second.fingerprint, own.fingerprint}) == 3
    assert (second.name, first.weights) == ("tiny-llama", second.weights), "a head plan fits both"
    assert load_model(ModelConfig(NAME, device="cpu")).fingerprint == first.fingerprint


def test_a_cached_model_stays_what_it_was(
    hub: Hub, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(NAME, repository)
    before = find_model(NAME)
    (repository / "config.json").write_text("{}")
    hub.repositories[NAME]["main"] = ("f" * 40, repository)
    hub.fetched.clear()
    assert find_model(NAME) == before
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert find_model(NAME) == before, "without a network, too"
    assert hub.fetched == []


def test_a_cache_without_weights_is_completed(hub: Hub, repository: Path) -> None:
    hub.add(NAME, repository)
    folder = find_model(NAME, weights=False).path
    assert not list(folder.glob("*.safetensors"))
    assert "model.safetensors" not in hub.fetched
    assert (find_model(NAME).path / "model.safetensors").is_file()


def test_a_model_that_is_not_there_is_said_so(hub: Hub) -> None:
    with pytest.raises(UnsupportedModel, match="no such model on the Hugging Face hub") as caught:
        find_model("someone/nothing")
    assert "someone/nothing" in caught.value.message


def test_a_revision_that_is_not_there_is_said_so(hub: Hub, repository: Path) -> None:
    hub.add(NAME, repository)
    with pytest.raises(UnsupportedModel, match="no revision 'v9'"):
        find_model(f"{NAME}@v9")


def test_a_gated_model_asks_for_a_token(hub: Hub, repository: Path) -> None:
    hub.add(NAME, repository)
    hub.gated.add(NAME)
    with pytest.raises(UnsupportedModel, match=r"accepted its licence.*HF_TOKEN"):
        find_model(NAME)


@pytest.mark.parametrize("offline", [True, False])
def test_a_missing_network_is_said_so(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnsupportedModel, match="the hub cannot be reached"):
        find_model(NAME)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (["model-Q4.gguf", "README.md"], "GGUF, the format of llama.cpp"),
        (["config.json", "pytorch_model.bin"], "pickle files alone"),
        (["config.json"], "holds no model.safetensors"),
    ],
)
def test_a_repository_without_safetensors_is_refused(
    hub: Hub, tmp_path: Path, files: list[str], reason: str
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    for name in files:
        (folder / name).write_text("{}")
    hub.add(NAME, folder)
    with pytest.raises(UnsupportedModel, match=reason):
        find_model(NAME)


def test_a_gguf_file_or_folder_is_told_from_other_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "model-Q4_K_M.gguf"
    for name in (str(file), "/nowhere/model.gguf"):
        with pytest.raises(UnsupportedModel, match="GGUF, the format of"):
            find_model(name)
    file.write_bytes(b"GGUF")
    for name in (str(file), str(tmp_path)):
        with pytest.raises(UnsupportedModel, match="safetensors model that it was made from"):
            find_model(name)


@pytest.mark.parametrize("name", ["/nowhere/Qwen3-8B", "./models/x", "~/x", "a/b/c", "two words"])
def test_a_folder_that_is_not_there_is_said_so(name: str) -> None:
    with pytest.raises(UnsupportedModel, match="There is no folder"):
        find_model(name)


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UnsupportedModel, match="is a file"):
        find_model(str(tmp_path / "config.json"))
