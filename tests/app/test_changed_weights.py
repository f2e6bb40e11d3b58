"""A model whose files were changed under the server answers nothing and publishes nothing."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.factory import create_app
from app.services.services import Services, make_services
from common.errors import ModelChanged
from engine.model.fingerprint import weights_fingerprint
from engine.model.weights_check import WeightsCheck
from tests.app.live import until
from tests.app.seeding import FINGERPRINT, StorageSeeder

QUESTION = {"question": "When does the gate close?", "max_tokens": 4}


def test_a_difference_makes_the_server_unready_and_ends_answers(
    services: Services, seeder: StorageSeeder, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    check = WeightsCheck(folder, weights_fingerprint(folder), tmp_path / "weights.json")
    remade = make_services(
        services.config,
        services.data_dir,
        services.storage,
        services.engine,
        weights_check=check,
    )
    with TestClient(create_app(remade), headers=seeder.headers()) as client:
        path = f"/documents/{seeder.ready(client)}/ask"
        assert client.post(path, json=QUESTION).status_code == 200
        assert client.get("/readyz").json()["checks"]["weights"]
        (folder / "config.json").write_text("[]")
        check.start()
        until(lambda: check.problem() is not None)
        refused = client.post(path, json=QUESTION)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "cache_stale")
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert "changed" in ready.json()["reasons"]["weights"]
        seeder.upload(client, text="Another document.")
        seeder.storage = services.storage.of(FINGERPRINT, check.confirm)
        with pytest.raises(ModelChanged):
            seeder.publish()
