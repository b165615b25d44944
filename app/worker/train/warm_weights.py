"""The weights that a training starts from, in the units of its solver."""

from app.db.tables import ModelRow
from app.models import file
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.load import Work
from app.worker.worker_context import Desk

FIELD = "warm_start"


def starting_weights(desk: Desk, work: Work) -> tuple[Array, float | Array] | None:
    """(weights, intercept) of the model that the request names. The work must be prepared: it says the units."""
    if work.request.warm_start is None:
        return None
    with desk.database.read() as session:
        model = session.get_one(ModelRow, work.request.warm_start)
    if model.purged_at is not None:
        raise PermanentFailure("model_purged", "the model to start from was purged before the job ran", FIELD)
    stored = file.read(desk.blobs.path(model.blob))
    features = work.train.X.shape[1]
    if stored.header.n_features != features:
        message = f"the model to start from has {stored.header.n_features} features, and this job {features}"
        raise PermanentFailure("feature_mismatch", message, FIELD)
    if work.pipeline is None:
        return stored.coef, stored.intercept
    return work.pipeline.unfold(stored.coef, stored.intercept)
