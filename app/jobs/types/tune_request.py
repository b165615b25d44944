"""The job type `tune`: it searches C and other settings by cross-validation, with a proof if asked for."""

from typing import Literal

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.db.tables import DatasetRow
from app.jobs.admission import Admission, Needs
from app.jobs.result_schemas import TuneResult
from app.jobs.schemas import JobOptions
from app.jobs.training_jobs import training_type
from app.jobs.tune_schemas import TuneSpec
from app.jobs.validation import tuning


class TuneRequest(JobOptions, TuneSpec):
    """Search C, and other settings, by cross-validation; then train a model with the best."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "tune",
                    "dataset_id": "ds_…",
                    "model": "radar",
                    "C": {"min": 0.001, "max": 1000},
                    "loss": ["squared_hinge", "hinge"],
                    "certify": {"epsilon": 0.02},
                }
            ]
        }
    )

    type: Literal["tune"] = Field(description="Job type.")


def _needs(session: Session, request: TuneRequest, dataset: DatasetRow, admission: Admission) -> Needs:
    """Estimate a search: that of a cross-validated training for each C, and the vectors of all trainings."""
    ends = request.costs()
    trainings = [request.training(one, C) for one in request.combinations() for C in {ends[0], ends[-1]}]
    found = [admission.needs(session, one, dataset) for one in trainings]
    values = request.count_costs() * len(request.combinations()) * request.cross_validation.repeats
    kept = admission.kept_bytes(session, trainings, dataset, values=values, folds=request.folds)
    seconds = [one.seconds for one in found if one.seconds is not None]
    searches = values * (1 + (request.outer_folds or 0))
    whole = sum(seconds) / len(seconds) * searches if len(seconds) == len(found) else None
    limit = request.stop.seconds
    return Needs(
        whole if whole is None or limit is None else min(whole, limit), max(one.peak_bytes for one in found) + kept
    )


JOB_TYPE = training_type(TuneRequest, tuning.refusals, _needs, result=TuneResult)
