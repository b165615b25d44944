"""Reads the weights of the model that a training starts from."""

from app.db.tables import ModelRow
from app.models import file
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.load import Work
from app.worker.worker_context import WorkerContext


def starting_weights(context: WorkerContext, work: Work) -> tuple[Array, float | Array] | None:
    """Return (weights, intercept) of the model to start from, in the units of the prepared work."""
    if work.request.warm_start is None:
        return None
    with context.database.read() as session:
        model = session.get_one(ModelRow, work.request.warm_start)
    if model.purged_at is not None:
        raise PermanentFailure(
            "model_purged", "the model to start from was purged before the job started", "warm_start"
        )
    stored = file.read(context.blobs.path(model.blob))
    features = work.train.X.shape[1]
    if stored.header.n_features != features:
        message = f"the model to start from has {stored.header.n_features} features; this job has {features}"
        raise PermanentFailure("feature_mismatch", message, "warm_start")
    if work.pipeline is None:
        return stored.coef, stored.intercept
    return work.pipeline.unfold(stored.coef, stored.intercept)
