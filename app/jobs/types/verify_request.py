"""The job type `verify`: it recomputes the certificate of a stored model."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, StrictBool
from sqlalchemy.orm import Session

from app.jobs import repository
from app.jobs.model_jobs import (
    OnModel,
    Plan,
    check_features,
    check_labels_known,
    find_model,
    on_model,
    training_dataset,
)
from app.jobs.result_schemas import JobResult, SearchCertificate, StoredFile
from app.jobs.schemas import JobOptions
from app.models.metrics.schemas import Figures
from app.models.schemas import Bounds, Certificate, ClassBounds
from app.names import Text
from app.storage import BlobStore
from app.web.fields import DatasetId


class VerifyOptions(JobOptions):
    """Options of a verification."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rows": False}]})

    dataset_id: Text | None = Field(
        None, description="Dataset with the training rows; null: the dataset that the model was trained on."
    )
    rows: StrictBool = Field(
        False,
        description="Also write the training rows as the solver saw them, for the program of `format=verifier`. "
        "`GET /v1/jobs/{id}/output` returns the file (npz).",
    )

    tuning: StrictBool = Field(
        False,
        description="Also recompute the proof of the search that chose C, which trains its folds again. "
        "`result.tuning` has the outcome; null: not requested, or there is no such proof.",
    )


class VerifyRequest(OnModel, VerifyOptions):
    """Recompute a certificate: the primal value from weights and data, the bound from the stored dual point."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"type": "verify", "model": "radar"}]})

    type: Literal["verify"] = Field(description="Job type.")


class Difference(Figures):
    """A claim of the stored certificate that the recomputed one contradicts, or another input."""

    field: str = Field(description="What differs.")
    claimed: Any = Field(description="Value in the model's card, of any type.")
    found: Any = Field(description="Value that was found, of any type.")


class ProofCheck(Figures):
    """Whether the proof of a search agrees with the recomputed one."""

    matches: bool | None = Field(description="Whether it is confirmed; false: contradicted; null: no proof this time.")
    differences: list[Difference] = Field(description="What contradicts it; empty: nothing.")
    recomputed: SearchCertificate | None = Field(description="The recomputed proof; null: there is none.")


class VerifyResult(JobResult, Bounds):
    """Result of a verification: the recomputed certificate, and whether it agrees with the claimed one."""

    per_class: list[ClassBounds] | None = Field(
        None, description="Bounds of each class of a one-vs-rest model; else null."
    )
    bound_from: str = Field(description="Dual point that the bound comes from: the stored one, or a new one.")
    matches: bool | None = Field(
        description="Whether the claim is confirmed; false: contradicted; null: the new bound is too weak to tell."
    )
    differences: list[Difference] = Field(description="What contradicts the claim; empty: nothing.")
    notes: list[str] = Field(description="Remarks about the computation.")
    claimed: Certificate = Field(description="The certificate of the model's card.")
    rows: int = Field(description="Number of training rows.")
    dataset_id: DatasetId
    tuning: ProofCheck | None = Field(None, description="The recomputed proof of the search; null: not requested.")
    output: StoredFile | None = Field(
        None, description="The training rows, with `rows`; `GET /v1/jobs/{id}/output` returns them."
    )


def _plan(session: Session, request: VerifyRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = training_dataset(session, request.dataset_id, model.row)
    check_labels_known(model, dataset)
    check_features(model, dataset)
    training = repository.get(session, model.row.job_id or "")
    peak_bytes = 0 if training is None else training.peak_bytes  # a verification needs the memory of the training
    return Plan(model.row, dataset, peak_bytes)


JOB_TYPE = on_model(
    VerifyRequest,
    _plan,
    result=VerifyResult,
)
