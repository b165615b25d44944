"""The HTTP application: `create_app` builds it from the settings. The API process (app/runtime/server.py) runs it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from anyio import to_thread
from fastapi import Depends, FastAPI
from fastapi.telemetry import TelemetryConfig

from app import __version__
from app.config import Settings
from app.datasets import endpoints as datasets
from app.datasets import repository as dataset_rows
from app.datasets.inspection.inspector import Inspector
from app.datasets.reading.parse_queue import ParseQueue
from app.datasets.reading.parser_pool import ParserPool
from app.datasets.reading.receive import UploadBuffers
from app.datasets.uploads import endpoints as uploads
from app.datasets.uploads import service as uploads_service
from app.datasets.uploads.part_files import PartFiles
from app.db import Database
from app.errors import install_handlers
from app.health import endpoints as health
from app.health import system_endpoints
from app.jobs import endpoints as jobs
from app.jobs import event_endpoints, model_endpoints, path_endpoints, snapshot_endpoints, solver_endpoints
from app.jobs import repository as job_rows
from app.jobs.events import EventFeed
from app.keys import session_endpoints
from app.keys.guard import OPEN_PATHS, SESSION_PATH, Guard
from app.keys.session_store import COOKIE, CSRF_HEADER
from app.models import endpoints as models
from app.models.aliases import endpoints as aliases
from app.models.evaluations import endpoints as evaluations
from app.models.exports import endpoints as exports
from app.models.serving_hooks import Serving
from app.predictions import endpoints as predictions
from app.predictions import schemas as prediction_schemas
from app.predictions.model_cache import ModelCache
from app.predictions.open_inference import endpoints as inference
from app.predictions.open_inference import schemas as inference_schemas
from app.predictions.shadow import Shadows
from app.reports import endpoints as reports
from app.storage.identity import open_store
from app.ui import endpoints as ui
from app.web import idempotency
from app.web.api_document import Additions, complete_document
from app.web.browser import HeadRequests, PathPrefix, add_docs
from app.web.context import Context, set_context
from app.web.fast_route import DirectRoutes
from app.web.long_poll import DoneWatch
from app.web.thread_rooms import READ_THREADS
from app.web.validation import known_query_only
from app.webhooks import endpoints as webhooks
from app.webhooks.dispatcher import Dispatcher
from app.webhooks.schemas import MESSAGES

DESCRIPTION = """\
Linear support vector machines as a service: upload a dataset, submit a training job, watch it
converge, call predict. Every model carries a certificate: an upper bound on its distance from the
optimum, computed by code that is independent of the solver.

Errors are problem documents (RFC 9457); [the list of error codes](/docs/errors) explains each code.
"""
TAGS = {
    "datasets": "Upload, inspect, download and delete datasets.",
    "uploads": "Resumable uploads of large files.",
    "jobs": "Submit and control jobs: train, evaluate, predict, verify.",
    "models": "Trained models: certificate, metrics, weights, export, import, deletion.",
    "aliases": "Aliases of model versions: switch, canary, shadow, rollback.",
    "evaluations": "Reports of models on labelled datasets.",
    "predictions": "Predict and explain rows.",
    "open inference protocol": "Predictions for clients of the Open Inference Protocol, such as tritonclient.",
    "solvers": "The solvers and their options.",
    "webhooks": "Addresses that receive the events of jobs.",
    "messages": "Requests that the service sends to webhooks.",
    "session": "Sign-in of browsers: a key in exchange for a cookie.",
    "health": "Liveness and readiness checks, and figures of the whole service.",
}
"""Groups of operations in the API documentation, in order, with their descriptions."""
DOCUMENT_ADDITIONS = Additions(
    {**prediction_schemas.COMPONENTS, **snapshot_endpoints.COMPONENTS, **inference_schemas.COMPONENTS},
    MESSAGES,
    COOKIE,
    CSRF_HEADER,
    {("get", SESSION_PATH), ("post", SESSION_PATH), *(("get", path) for path in OPEN_PATHS)},
)


def create_app(settings: Settings | None = None) -> FastAPI:
    settings = settings or Settings()
    database = Database(settings.resolved_database_url)
    blobs = open_store(settings.data_dir, database)
    parser_pool = ParserPool(settings.data_dir, settings.max_upload_bytes, reserve_bytes=settings.free_space_bytes)
    parse_queue = ParseQueue(settings, database, blobs, parser_pool)
    parts = PartFiles(settings.data_dir, blobs.check)
    context = Context(settings, database, blobs, readers_warm=lambda: parser_pool.warm)
    inspector, event_feed = Inspector(settings, database, blobs, parser_pool), EventFeed(settings, database)
    all_events = event_endpoints.AllEvents(settings, database)
    buffers = UploadBuffers(settings.data_dir, settings.free_space_bytes)
    watch = DoneWatch(database, {"ds": dataset_rows.unfinished_among, "job": job_rows.unfinished_among})
    for part in (parse_queue, parts, inspector, event_feed, exports.Conversions(), watch, buffers, all_events):
        context.add(part)
    serve_from(context, ModelCache(database, blobs, settings.model_cache_bytes, settings.max_predict_bytes))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = READ_THREADS
        threading.Thread(target=parser_pool.warm_up, daemon=True, name="warm-up").start()
        forget_idle = partial(uploads_service.forget_idle, database, parts, settings)
        forget_keys = partial(idempotency.forget_expired, database)
        caretaker = asyncio.create_task(parse_queue.take_care(forget_idle, forget_keys))
        dispatcher = Dispatcher(settings, database)
        dispatching = asyncio.create_task(dispatcher.run())
        yield
        caretaker.cancel()
        dispatching.cancel()
        await dispatcher.stop()
        await parse_queue.stop()
        context.part(Shadows).stop()
        database.close()

    app = FastAPI(
        title="Hyperplane",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=[{"name": name, "description": said} for name, said in TAGS.items()],
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        dependencies=[Depends(known_query_only)],
        telemetry=_telemetry(),
    )
    set_context(app, context)
    hot_routes = [*predictions.router.routes, *inference.hot_router.routes]
    app.add_middleware(DirectRoutes, routes=hot_routes)
    app.add_middleware(HeadRequests)
    app.add_middleware(Guard, settings=settings, database=database)
    if settings.path_prefix:
        app.add_middleware(PathPrefix, prefix=settings.path_prefix)
    install_handlers(app, blobs.check)
    idempotency.install_replay(app)
    # Routing tries one route after another, and the routes of an included router twice. The busiest routes therefore
    # come first and are not in a router.
    app.router.routes[:0] = hot_routes
    for module in (
        inference,
        health,
        datasets,
        uploads,
        jobs,
        model_endpoints,
        path_endpoints,
        snapshot_endpoints,
        models,
        evaluations,
        aliases,
        exports,
        reports,
        solver_endpoints,
        webhooks,
        event_endpoints,
        system_endpoints,
        session_endpoints,
        ui,
    ):
        app.include_router(module.router)
    add_docs(app)
    complete_document(app, DOCUMENT_ADDITIONS)
    return app


def serve_from(context: Context, model_cache: ModelCache) -> None:
    """Make the application serve predictions from this model cache, with a new queue of shadow requests."""
    shadows = Shadows(model_cache)
    for part in (model_cache, shadows, Serving(model_cache.forget, model_cache.forget_reference, shadows.stats)):
        context.add(part)


def _telemetry() -> TelemetryConfig | None:
    """Turn telemetry off unless an OTEL_ variable is set. If it were on, FastAPI would look for its configuration with
    every request."""
    if any("OTEL_" in name for name in os.environ):
        return None
    return {"tracing": False, "metrics": False, "logs": False}
