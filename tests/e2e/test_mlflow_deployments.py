"""MLflow's deployments on a service: create, update, list, get, predict, explain and delete."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hyperplane import Client
from mlflow.deployments import get_deploy_client
from mlflow.exceptions import MlflowException

from tests.support.serving import Service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    made = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"])
    return made.assign(label=np.where(made.a - made.b > 0, "yes", "no"))


def test_a_deployment_is_an_alias(sqlite_service: Service, frame: pd.DataFrame, tmp_path: Path) -> None:
    rows = frame.drop(columns="label")
    with Client(sqlite_service.url) as client:
        dataset = client.datasets.create(frame, target="label")
        for C in (1e-6, 1.0):
            client.jobs.train(dataset, model="mlflow-radar", C=C).wait()
        (tmp_path / "artifact").mkdir()
        client.models.export("mlflow-radar:2", "json", target=tmp_path / "artifact" / "model.json")
        expected = {
            version: list(client.models.predict(f"mlflow-radar:{version}", rows)["label"]) for version in (1, 2)
        }
        assert expected[1] != expected[2]

        deployments = get_deploy_client(f"hyperplane:{sqlite_service.url}")
        created = deployments.create_deployment("mlflow-radar@prod", "hyperplane:/1")
        assert (created["name"], created["version"]) == ("mlflow-radar@prod", 1)
        assert client.aliases.get("mlflow-radar", "prod").version == 1
        for inputs in (rows, rows.to_numpy(), {"dataframe_split": rows.to_dict("split")}):
            answer = deployments.predict("mlflow-radar@prod", inputs)
            assert answer.get_predictions()[0].tolist() == expected[1]

        deployments.update_deployment("mlflow-radar@prod", str(tmp_path / "artifact"))
        assert deployments.get_deployment("mlflow-radar@prod")["version"] == 3, "the file was imported"
        assert deployments.predict("mlflow-radar@prod", rows)["predictions"] == expected[2]
        assert len(deployments.explain("mlflow-radar@prod", rows[:2])["explanations"]) == 2
        deployments.create_deployment("mlflow-radar", "hyperplane:/2")
        names = [one["name"] for one in deployments.list_deployments()]
        assert {"mlflow-radar", "mlflow-radar@prod"} <= set(names)

        for _ in range(2):  # deleting again changes nothing
            deployments.delete_deployment("mlflow-radar@prod")
        assert "mlflow-radar@prod" not in [one["name"] for one in deployments.list_deployments()]
        assert client.models.get("mlflow-radar:3").version == 3


def test_errors_are_those_of_mlflow(sqlite_service: Service, frame: pd.DataFrame, tmp_path: Path) -> None:
    deployments = get_deploy_client(f"hyperplane:{sqlite_service.url}")
    with Client(sqlite_service.url) as client:
        client.jobs.train(client.datasets.create(frame, target="label"), model="mlflow-faults").wait()
    deployments.create_deployment("mlflow-faults", "hyperplane:/1")
    for call, words in [
        (lambda: deployments.create_deployment("mlflow-faults", "hyperplane:/1"), "exists already"),
        (lambda: deployments.create_deployment("mlflow-faults@b", "hyperplane:/9"), "no version 9"),
        (lambda: deployments.create_deployment("mlflow-faults@b", "hyperplane:/x"), "write hyperplane:/3"),
        (lambda: deployments.create_deployment("mlflow-faults@b", str(tmp_path)), "one model file"),
        (lambda: deployments.create_deployment("mlflow-faults@b", "hyperplane:/1", flavor="onnx"), "flavor"),
        (lambda: deployments.update_deployment("mlflow-faults"), "model_uri is needed"),
        (lambda: deployments.update_deployment("mlflow-nothing", "hyperplane:/1"), "(?i)no such"),
        (lambda: deployments.get_deployment("mlflow-nothing"), "(?i)no such"),
        (lambda: deployments.predict("mlflow-faults", [[1.0]]), "instances"),
    ]:
        with pytest.raises(MlflowException, match=words):
            call()
