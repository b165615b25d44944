"""MLflow's deployments on a service: `mlflow deployments create -t hyperplane --name radar -m model.json`.

A deployment is an alias of a model. MLflow finds this module by the entry point `mlflow.deployments`.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mlflow.artifacts import download_artifacts
from mlflow.deployments import PredictionsResponse
from mlflow.deployments.base import BaseDeploymentClient
from mlflow.exceptions import MlflowException

import hyperplane

__all__ = ["HyperplaneDeployments", "run_local", "target_help"]

SCHEME = "hyperplane:"
"""Beginning of the target, which the URL of a service can follow, and of references to versions of a service."""
DEFAULT_ALIAS = "deployed"
"""Alias of a deployment whose name has none."""
FORMATS = {".json": "json", ".safetensors": "safetensors", ".liblinear": "liblinear"}
"""Format of a model file by its suffix: those that a service imports."""

HELP = """\
Target: `hyperplane`, for the service of HYPERPLANE_URL (default http://127.0.0.1:8000), or `hyperplane:URL`.
HYPERPLANE_API_KEY is sent if it is set.

A deployment is an alias of a model: `radar@prod` is the alias `prod` of the model `radar`; `radar` is `radar@deployed`.

Model URI: `hyperplane:/3` is version 3 of the model on the service. Any other URI that MLflow can download must be a
model file (.json, .safetensors or .liblinear), or a folder with one such file. It becomes the next version.

There is no config, no flavor and no endpoint."""


class Deployment(NamedTuple):
    """The model and the alias that a name means."""

    model: str
    alias: str

    @classmethod
    def of(cls, name: str) -> "Deployment":
        """Read a name: `model@alias` or `model`."""
        model, _, alias = name.partition("@")
        return cls(model, alias or DEFAULT_ALIAS)

    @property
    def name(self) -> str:
        """The shortest name."""
        return self.model if self.alias == DEFAULT_ALIAS else self.reference

    @property
    def reference(self) -> str:
        """The name of the alias in requests."""
        return f"{self.model}@{self.alias}"


class HyperplaneDeployments(BaseDeploymentClient):
    """The deployments of a service. Errors are `MlflowException`."""

    def __init__(self, target_uri: str) -> None:
        super().__init__(target_uri)  # type: ignore[no-untyped-call]
        self._client = hyperplane.Client(target_uri.removeprefix("hyperplane").removeprefix(":") or None)

    def create_deployment(
        self, name: str, model_uri: str, flavor: Any = None, config: Any = None, endpoint: Any = None
    ) -> dict[str, Any]:
        """Point a new alias to a version. A model file becomes the next version of the model first."""
        _refuse(flavor=flavor, config=config, endpoint=endpoint)
        wanted = Deployment.of(name)
        with _errors():
            if self._find(wanted) is not None:
                raise MlflowException(f"{wanted.name} exists already; update it, or delete it first")
            version = self._version(wanted.model, model_uri)
            return _shown(self._client.aliases.set(wanted.model, wanted.alias, version, create_only=True))

    def update_deployment(
        self, name: str, model_uri: str | None = None, flavor: Any = None, config: Any = None, endpoint: Any = None
    ) -> dict[str, Any]:
        """Point the alias to another version. The service keeps the former ones: `client.aliases.roll_back`."""
        _refuse(flavor=flavor, config=config, endpoint=endpoint)
        if model_uri is None:
            raise MlflowException("model_uri is needed: nothing else of a deployment can be changed")
        wanted = Deployment.of(name)
        with _errors():
            before = self._client.aliases.get(*wanted)
            version = self._version(wanted.model, model_uri)
            return _shown(self._client.aliases.set(*wanted, version, revision=before.revision))

    def delete_deployment(self, name: str, config: Any = None, endpoint: Any = None) -> None:
        """Delete the alias. The versions of the model stay."""
        _refuse(config=config, endpoint=endpoint)
        wanted = Deployment.of(name)
        with _errors():
            if self._find(wanted) is not None:
                self._client.aliases.delete(*wanted)

    def list_deployments(self, endpoint: Any = None) -> list[dict[str, Any]]:
        """List the aliases of all models."""
        _refuse(endpoint=endpoint)
        with _errors():
            names = sorted({model.name for model in self._client.models.list()})
            return [_shown(alias) for name in names for alias in self._client.aliases.list(name)]

    def get_deployment(self, name: str, endpoint: Any = None) -> dict[str, Any]:
        """Describe an alias and the version that it points to."""
        _refuse(endpoint=endpoint)
        with _errors():
            return _shown(self._client.aliases.get(*Deployment.of(name)))

    def predict(
        self, deployment_name: str | None = None, inputs: Any = None, endpoint: Any = None
    ) -> PredictionsResponse:
        """Predict a data frame, an array, lists of numbers, or a body of MLflow's scoring protocol."""
        _refuse(endpoint=endpoint)
        with _errors():
            answer = self._client.models.invocations(_named(deployment_name).reference, _body(inputs))
        return PredictionsResponse(answer)

    def explain(self, deployment_name: str | None = None, df: Any = None, endpoint: Any = None) -> dict[str, Any]:
        """Give the strongest features of each row."""
        _refuse(endpoint=endpoint)
        with _errors():
            return dict(self._client.models.explain(_named(deployment_name).reference, df))

    def _find(self, wanted: Deployment) -> hyperplane.Alias | None:
        try:
            return self._client.aliases.get(*wanted)
        except hyperplane.NotFound:
            return None

    def _version(self, model: str, uri: str) -> int:
        """Return the version that a URI means. A file is imported."""
        if uri.startswith(SCHEME):
            number = uri.removeprefix(SCHEME).lstrip("/")
            if not number.isdecimal():
                raise MlflowException(f"{uri}: write hyperplane:/3 for version 3 of {model}")
            return int(number)
        file = _model_file(Path(download_artifacts(uri)))
        return self._client.models.import_(model, file, format=FORMATS[file.suffix]).version


def run_local(target: str, name: str, model_uri: str, flavor: Any = None, config: Any = None) -> None:
    """Refuse: a service of this machine is started by its own command."""
    raise MlflowException("start a service on this machine with `hyperplane serve`, and create the deployment there")


def target_help() -> str:
    """Return how targets, names and model URIs are written."""
    return HELP


def _named(name: str | None) -> Deployment:
    if name is None:
        raise MlflowException("name the deployment")
    return Deployment.of(name)


def _shown(alias: hyperplane.Alias) -> dict[str, Any]:
    """Describe an alias in MLflow's words."""
    return {**alias, "name": Deployment(alias["name"], alias["alias"]).name, "model": alias["name"]}


def _body(inputs: Any) -> dict[str, Any]:
    """Write rows as a body of MLflow's scoring protocol."""
    if isinstance(inputs, dict):
        return inputs
    if hasattr(inputs, "to_json"):  # a data frame; its missing cells become null
        return {"dataframe_split": json.loads(inputs.to_json(orient="split", date_format="iso"))}
    return {"instances": inputs.tolist() if hasattr(inputs, "tolist") else inputs}


def _model_file(path: Path) -> Path:
    """Return the model file that was downloaded: the path itself, or the one model file in a folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [file for file in files if file.suffix in FORMATS]
    if len(found) != 1:
        raise MlflowException(f"{path} must be or contain one model file, but has {len(found)}: {', '.join(FORMATS)}")
    return found[0]


def _refuse(**given: Any) -> None:
    """Refuse what a service has no counterpart for."""
    for name, value in given.items():
        if value:
            raise MlflowException(f"{name} has no meaning for this target; leave it out")


@contextmanager
def _errors() -> Iterator[None]:
    """Raise the errors of the client as MLflow's."""
    try:
        yield
    except hyperplane.HyperplaneError as error:
        raise MlflowException(str(error)) from error
