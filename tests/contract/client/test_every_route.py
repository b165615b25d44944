"""The client has a method for every route of the OpenAPI document, and sends what the document declares."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from app.main import create_app
from tests.support.both_clients import BOTH, Caller, caller
from tests.support.builders import temporary_settings

URL = "http://service"
CALLS: dict[str, Callable[[Any], Any]] = {
    "livez": lambda c: c.livez(),
    "readyz": lambda c: c.readyz(),
    "create_dataset": lambda c: c.datasets.create(b"a,b\n1,2\n", name="n", target="b", labels={"k": "v"}),
    "list_datasets": lambda c: c.datasets.list(status="ready", labels={"k": "v"}, limit=5),
    "get_dataset": lambda c: c.datasets.get("ds_1", wait=1),
    "delete_dataset": lambda c: c.datasets.delete("ds_1"),
    "reread_dataset": lambda c: c.datasets.reread("ds_1", target="a"),
    "list_dataset_columns": lambda c: c.datasets.columns("ds_1"),
    "preview_dataset": lambda c: c.datasets.preview("ds_1", rows=3),
    "get_dataset_statistics": lambda c: c.datasets.statistics("ds_1", limit=5),
    "get_dataset_issues": lambda c: c.datasets.issues("ds_1"),
    "get_dataset_content": lambda c: c.datasets.content("ds_1"),
    "create_upload": lambda c: c.uploads.create(9, {"Content-Type": "text/csv"}, name="n"),
    "get_upload": lambda c: c.uploads.get("up_1"),
    "get_upload_offset": lambda c: c.uploads.offset("up_1"),
    "append_to_upload": lambda c: c.uploads.append("up_1", 0, b"x", complete=True),
    "delete_upload": lambda c: c.uploads.delete("up_1"),
    "create_job": lambda c: c.jobs.train("ds_1", model="m", C=2.0),
    "list_jobs": lambda c: c.jobs.list(status="running", type="train"),
    "get_job": lambda c: c.jobs.get("job_1", wait=1),
    "cancel_job": lambda c: c.jobs.cancel("job_1"),
    "finish_job": lambda c: c.jobs.finish("job_1"),
    "pause_job": lambda c: c.jobs.pause("job_1"),
    "resume_job": lambda c: c.jobs.resume("job_1"),
    "predict_with_job": lambda c: c.jobs.predict("job_1", [[1.0]], outputs=["label"]),
    "list_job_events": lambda c: c.jobs.events("job_1", limit=5),
    "get_job_trace": lambda c: c.jobs.trace("job_1"),
    "get_job_path": lambda c: c.jobs.path("job_1"),
    "get_job_output": lambda c: c.jobs.output("job_1"),
    "get_job_errors": lambda c: c.jobs.errors("job_1"),
    "delete_job_output": lambda c: c.jobs.delete_output("job_1"),
    "stream_events": lambda c: c.jobs.stream_all(after_id="evt_1"),
    "list_models": lambda c: c.models.list(name="m"),
    "get_model": lambda c: c.models.get("m:3", deleted=True),
    "delete_model": lambda c: c.models.delete("m@prod", purge=True),
    "restore_model": lambda c: c.models.restore("mdl_1"),
    "get_model_weights": lambda c: c.models.weights("m", top=3),
    "evaluate_model": lambda c: c.models.evaluate("m", "ds_1"),
    "verify_model": lambda c: c.models.verify("m", rows=True),
    "leave_one_out": lambda c: c.models.leave_one_out("m"),
    "list_evaluations": lambda c: c.models.evaluations("m"),
    "get_evaluation": lambda c: c.models.evaluation("evl_1"),
    "predict": lambda c: c.models.predict("m", [[1.0]], outputs=["label"], routing_key="k"),
    "invoke_model": lambda c: c.models.invocations("m", {"instances": [[1.0]]}),
    "explain_predictions": lambda c: c.models.explain("m", [[1.0]], top=2),
    "export_model": lambda c: c.models.export("m", "json"),
    "get_model_report": lambda c: c.models.report("m"),
    "import_model": lambda c: c.models.import_("m", b"{}", format="json"),
    "list_aliases": lambda c: c.aliases.list("m"),
    "put_alias": lambda c: c.aliases.set("m", "prod", 3, revision=1),
    "get_alias": lambda c: c.aliases.get("m", "prod"),
    "delete_alias": lambda c: c.aliases.delete("m", "prod", revision=1),
    "list_alias_history": lambda c: c.aliases.history("m", "prod"),
    "roll_back_alias": lambda c: c.aliases.roll_back("m", "prod", to=2),
    "list_solvers": lambda c: c.solvers(),
    "create_webhook": lambda c: c.webhooks.create("https://example.org", ["job.succeeded"]),
    "list_webhooks": lambda c: c.webhooks.list(job_id="job_1"),
    "get_webhook": lambda c: c.webhooks.get("wh_1"),
    "delete_webhook": lambda c: c.webhooks.delete("wh_1"),
    "test_webhook": lambda c: c.webhooks.test("wh_1"),
    "list_webhook_deliveries": lambda c: c.webhooks.deliveries("wh_1", status="failed"),
    "get_system": lambda c: c.system(),
    "get_session": lambda c: c.session.get(),
    "create_session": lambda c: c.session.create("key_1.secret"),
    "delete_session": lambda c: c.session.delete("token"),
    "v2_live": lambda c: c.open_inference.live(),
    "v2_ready": lambda c: c.open_inference.ready(),
    "v2_server": lambda c: c.open_inference.server(),
    "v2_model": lambda c: c.open_inference.model("m"),
    "v2_model_version": lambda c: c.open_inference.model("m", "3"),
    "v2_model_ready": lambda c: c.open_inference.model_ready("m"),
    "v2_model_version_ready": lambda c: c.open_inference.model_ready("m", "3"),
    "v2_infer": lambda c: c.open_inference.infer("m", {"inputs": []}),
    "v2_infer_version": lambda c: c.open_inference.infer("m", {"inputs": []}, "3"),
}
"""A call for each operation of the document."""
REPEATABLE_POSTS = {"reread_dataset", "predict", "predict_with_job", "invoke_model", "explain_predictions"}
REPEATABLE_POSTS |= {"v2_infer", "v2_infer_version", "create_session"}
"""They change nothing, or the same again, so the document has no idempotency key for them."""


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, dict[str, Any]]]:
    document = create_app(temporary_settings(tmp_path_factory.mktemp("app"))).openapi()
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


class Recorder(httpx.MockTransport):
    """Stands for the network: keeps the requests, and answers as every route could."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        super().__init__(self._respond)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if "event-stream" in request.headers.get("accept", ""):
            return httpx.Response(200, text='event: done\ndata: {"id": "job_1"}\n\n')
        document = {"id": "ds_1", "done": True, "status": "ready", "data": [], "has_more": False, "next_cursor": None}
        return httpx.Response(200, json=document, headers={"Upload-Offset": "0"})


def test_every_operation_has_a_method(operations: dict[str, Any]) -> None:
    assert set(CALLS) == set(operations)


@pytest.mark.parametrize("kind", BOTH)
def test_every_method_sends_what_the_document_declares(operations: dict[str, Any], kind: str) -> None:
    for name, call in CALLS.items():
        method, path, operation = operations[name]
        recorder = Recorder()
        with caller(kind, URL, recorder) as by:
            finish(by, call(by.client))
        request = recorder.requests[0]
        assert request.method == method, name
        assert re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path), (name, request.url.path)
        declared = {one["name"] for one in operation.get("parameters", []) if one["in"] == "query"}
        sent = {key for key in request.url.params if not key.startswith("label.")}
        assert sent <= declared, name
        headers = {one["name"].lower() for one in operation.get("parameters", []) if one["in"] == "header"}
        if method == "POST":
            assert ("idempotency-key" in request.headers) == ("idempotency-key" in headers), name
            assert ("idempotency-key" in headers) != (name in REPEATABLE_POSTS), name


def finish(by: Caller, result: Any) -> None:
    """Send the first request of what a method returned: a result, a list, or a stream."""
    if hasattr(result, "page"):
        by.call(result.page())
    elif hasattr(result, "__next__"):
        next(result)
    elif hasattr(result, "__anext__"):
        by.call(result.__anext__())
    else:
        by.call(result)
