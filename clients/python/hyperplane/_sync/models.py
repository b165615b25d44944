# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""`client.models`: look at models, predict, evaluate, export and import them."""

from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from hyperplane._shared.answers import Answer
from hyperplane._shared.media_types import JSON
from hyperplane._shared.payloads import payload_of
from hyperplane._shared.requests import Request, id_of, path
from hyperplane._shared.types import Evaluation, Model, ModelSummary, Weights
from hyperplane._shared.waiting import call, read
from hyperplane._sync.jobs import Job, Jobs
from hyperplane._sync.pages import Pages
from hyperplane._sync.predicting import predicted, row_request
from hyperplane._sync.transport import Transport

__all__ = ["Models"]


class Models:
    """Models. A reference is an id (`mdl_…`), a name, a version (`spam:3`), an alias (`spam@prod`) or an answer."""

    def __init__(self, transport: Transport, jobs: Jobs) -> None:
        self._transport = transport
        self._jobs = jobs

    def list(self, **filters: Any) -> Pages[ModelSummary]:
        """List models, newest first. Filters: `name`, `task`, `created_after`, `deleted`, `limit`."""
        return Pages(self._transport, Request("GET", path("v1", "models"), params=filters), ModelSummary)

    def get(self, ref: Any, *, deleted: bool | None = None) -> Model:
        """Get a model."""
        request = Request("GET", path("v1", "models", id_of(ref)), params={"deleted": deleted})
        return Model(self._transport.json(request))

    def delete(self, ref: Any, *, purge: bool = False) -> None:
        """Delete a model; `restore` undoes it. `purge` frees its bytes for good."""
        params = {"purge": True} if purge else {}
        self._transport.send(Request("DELETE", path("v1", "models", id_of(ref)), params=params))

    def restore(self, ref: Any) -> Model:
        """Undo a deletion."""
        request = Request("POST", path("v1", "models", id_of(ref), "restore")).once()
        return Model(self._transport.json(request))

    def weights(self, ref: Any, *, top: int | None = None) -> Weights:
        """Get the weights, or with `top` the strongest of each class by name."""
        request = Request("GET", path("v1", "models", id_of(ref), "weights"), params={"top": top})
        return Weights(self._transport.json(request))

    def predict(
        self,
        ref: Any,
        rows: Any,
        *,
        outputs: Any = None,
        coverage: float | None = None,
        index_base: int | None = None,
        routing_key: str | None = None,
    ) -> Any:
        """Predict rows. A frame (pandas, polars, Arrow) comes back as a frame, all else as `Predictions`.

        Rows are lists, dicts, `{"indices", "values"}`, a numpy array, a sparse matrix or a frame; a Series or a dict
        is one row. `outputs` is a list of `label`, `score`, `probability`, `score_error_bound`, `set`, ... `coverage`:
        probability with which a `set` contains the truth. `routing_key` keeps a caller on one version of a canary.
        """
        params = {"return": outputs, "coverage": coverage, "index_base": index_base, "routing_key": routing_key}
        return predicted(self._transport, path("v1", "models", id_of(ref), "predict"), rows, params)

    def predict_file(
        self, ref: Any, file: Any, *, content_type: str | None = None, accept: str = JSON, outputs: Any = None
    ) -> bytes:
        """Predict the rows of a file and return the answer as it is: CSV, ndjson, Arrow, ... by `accept`.

        `file`: a path, bytes or a file object. Its suffix, or `content_type`, names the format.
        """
        payload = call(payload_of, file, content_type)
        with payload.open() as opened:
            content = read(opened, payload.size)
        sent = {**payload.headers, "Accept": accept}
        place = path("v1", "models", id_of(ref), "predict")
        request = Request("POST", place, {"return": outputs}, sent, content=content, repeatable=True)
        return (self._transport.send(request)).content

    def explain(self, ref: Any, rows: Any, *, top: int | None = None) -> Answer:
        """Get the strongest features of each row, by name and in a sentence."""
        request = row_request(path("v1", "models", id_of(ref), "explain"), rows, {"top": top}, {"Accept": "*/*"})
        return self._transport.answer(request)

    def invocations(self, ref: Any, body: dict[str, Any]) -> Answer:
        """Predict with a body of MLflow's scoring protocol (`dataframe_split`, `instances`, ...)."""
        request = Request("POST", path("v1", "models", id_of(ref), "invocations"), json=body, repeatable=True)
        return self._transport.answer(request)

    def evaluate(self, ref: Any, dataset: Any, **options: Any) -> Job:
        """Measure a model on a dataset, in a job."""
        body = {"dataset_id": id_of(dataset), **options}
        return self._job(Request("POST", path("v1", "models", id_of(ref), "evaluate"), json=body))

    def verify(self, ref: Any, dataset: Any = None, **options: Any) -> Job:
        """Compute the certificate again from the data, in a job. `rows=True` keeps the training rows for a verifier."""
        body = {**({} if dataset is None else {"dataset_id": id_of(dataset)}), **options}
        return self._job(Request("POST", path("v1", "models", id_of(ref), "verify"), json=body))

    def leave_one_out(self, ref: Any, **options: Any) -> Job:
        """Bound the leave-one-out error of a model, in a job."""
        return self._job(Request("POST", path("v1", "models", id_of(ref), "leave_one_out"), json=options))

    def evaluations(self, ref: Any, *, limit: int | None = None) -> Pages[Evaluation]:
        """List the evaluations of a model."""
        request = Request("GET", path("v1", "models", id_of(ref), "evaluations"), params={"limit": limit})
        return Pages(self._transport, request, Evaluation)

    def evaluation(self, evaluation_id: str) -> Evaluation:
        """Get an evaluation with its curves."""
        return Evaluation(self._transport.json(Request("GET", path("v1", "evaluations", evaluation_id))))

    def export(
        self, ref: Any, format: str, *, output: str | None = None, target: str | PathLike[str] | None = None
    ) -> bytes:
        """Export a model as `json`, `npz`, `safetensors`, `onnx`, `liblinear`, `sql`, ... and write it to `target`."""
        params = {"format": format, "output": output}
        content = (
            self._transport.send(Request("GET", path("v1", "models", id_of(ref), "export"), params=params))
        ).content
        if target is not None:
            call(Path(target).write_bytes, content)
        return content

    def report(self, ref: Any, *, target: str | Path | None = None) -> str:
        """Get the report of a model, one HTML file without scripts, and write it to `target`."""
        page = (self._transport.send(Request("GET", path("v1", "models", id_of(ref), "report")))).text
        if target is not None:
            Path(target).write_text(page, encoding="utf-8")
        return page

    def import_(
        self,
        name: str,
        content: bytes | BinaryIO | str | PathLike[str],
        *,
        format: str,
        content_type: str | None = None,
    ) -> Model:
        """Import a model file as a new version of a name."""
        if isinstance(content, str | PathLike):
            content = call(Path(content).read_bytes)
        elif not isinstance(content, bytes):
            content = call(content.read)
        headers = {"Content-Type": content_type or IMPORT_TYPES.get(format, "application/octet-stream")}
        params = {"name": name, "format": format}
        request = Request("POST", path("v1", "models", "import"), params=params, headers=headers, content=content)
        return Model(self._transport.json(request.once()))

    def _job(self, request: Request) -> Job:
        return Job(self._transport.json(request.once()), self._jobs)


IMPORT_TYPES = {
    "json": "application/json",
    "liblinear": "text/x-liblinear-model",
    "safetensors": "application/x-safetensors",
    "npz": "application/x-npz",
    "onnx": "application/x-onnx",
}
