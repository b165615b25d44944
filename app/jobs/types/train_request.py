"""The job type `train`: it trains a certified model on a dataset."""

from typing import Literal

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.db.tables import DatasetRow
from app.jobs.admission import Admission, Needs
from app.jobs.result_schemas import TrainResult
from app.jobs.schemas import JobOptions, TrainingSpec
from app.jobs.training_jobs import training_type
from app.jobs.validation import training


class TrainRequest(JobOptions, TrainingSpec):
    """Train a model. `GET /v1/solvers` lists the solvers and what each supports."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dataset_id": "ds_…", "model": "radar", "split": {"test": 0.2}}]}
    )

    type: Literal["train"] = Field("train", description="Job type. `train` is the default.")


def _needs(session: Session, request: TrainRequest, dataset: DatasetRow, admission: Admission) -> Needs:
    return admission.needs(session, request, dataset)


JOB_TYPE = training_type(
    TrainRequest, training.refusals, _needs, result=TrainResult, settle=training.with_settled_start
)
