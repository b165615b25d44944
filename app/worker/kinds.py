"""Which function does a job of which type. It returns when the job's end is committed, and raises if there is none."""

from collections.abc import Callable

from app.jobs.repository import Claim
from app.worker.evaluate import evaluate_model
from app.worker.predict import predict_batch
from app.worker.train.train_job import train_model
from app.worker.verify import verify_model
from app.worker.worker_context import StopAsked, WorkerContext

WORK_OF_TYPE: dict[str, Callable[[WorkerContext, Claim, StopAsked], None]] = {
    "train": train_model,
    "verify": verify_model,
    "evaluate": evaluate_model,
    "predict": predict_batch,
}
