"""Hyperplane's client: linear support vector machines over HTTP.

    client = hyperplane.Client()
    dataset = client.datasets.create(frame, target="churned")
    job = client.jobs.train(dataset=dataset, model="churn").wait(on_progress=hyperplane.bar)
    client.models.predict("churn", frame.head())

`AsyncClient` has the same methods with `await`.
"""

from hyperplane._async.client import AsyncClient
from hyperplane._async.jobs import AsyncJob
from hyperplane._shared.answers import Answer, Page
from hyperplane._shared.dataset_types import Dataset
from hyperplane._shared.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    HyperplaneError,
    InsufficientStorage,
    InvalidSignature,
    JobFailed,
    Locked,
    NotAcceptable,
    NotFound,
    PayloadTooLarge,
    PreconditionFailed,
    RangeNotSatisfiable,
    RateLimited,
    RequestTimeout,
    ServerError,
    ServiceUnavailable,
    Unauthorized,
    UnprocessableEntity,
    UnsupportedMediaType,
    WaitTimeout,
)
from hyperplane._shared.events import Event
from hyperplane._shared.progress import UploadProgress, bar
from hyperplane._shared.signatures import unwrap
from hyperplane._shared.types import (
    Alias,
    Certificate,
    Evaluation,
    JobSummary,
    Model,
    ModelSummary,
    Predictions,
    Trace,
    Webhook,
)
from hyperplane._shared.version import VERSION
from hyperplane._sync.client import Client
from hyperplane._sync.jobs import Job

__version__ = VERSION

__all__ = [
    "Alias",
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "BadRequest",
    "Certificate",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Dataset",
    "Evaluation",
    "Event",
    "Forbidden",
    "HyperplaneError",
    "InsufficientStorage",
    "InvalidSignature",
    "Job",
    "JobFailed",
    "JobSummary",
    "Locked",
    "Model",
    "ModelSummary",
    "NotAcceptable",
    "NotFound",
    "Page",
    "PayloadTooLarge",
    "PreconditionFailed",
    "Predictions",
    "RangeNotSatisfiable",
    "RateLimited",
    "RequestTimeout",
    "ServerError",
    "ServiceUnavailable",
    "Trace",
    "Unauthorized",
    "UnprocessableEntity",
    "UnsupportedMediaType",
    "UploadProgress",
    "WaitTimeout",
    "Webhook",
    "__version__",
    "bar",
    "unwrap",
]
