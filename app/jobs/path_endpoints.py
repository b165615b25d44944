"""`GET /v1/jobs/{id}/path`: the cross-validation curve and the weights by C of a tuning job."""

import io
import json
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from app.db.job_state import JobStatus
from app.db.tables import JobRow
from app.errors import Conflict, NotAcceptable, problems
from app.jobs import service
from app.jobs.curve_plot import curve_svg
from app.predictions.response_formats import encode
from app.web.context import InContext
from app.web.fields import JobId, JobInPath
from app.web.media_types import ARROW, CSV, JSON
from app.web.thread_rooms import RoomRoute

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=RoomRoute)

SVG = "image/svg+xml"
OFFERED = (JSON, CSV, ARROW, SVG)


class CurvePoint(BaseModel):
    """The cross-validated metric at one C."""

    C: float = Field(description="Value of C.")
    mean: float | None = Field(description="Mean of the metric over the folds; null: not defined.")
    std: float | None = Field(description="Sample standard deviation over the folds; null: one fold.")
    lower_bound: float | None = Field(description="Proven lower bound of the exact models' metric; null: no proof.")
    upper_bound: float | None = Field(description="Proven upper bound of the exact models' metric; null: no proof.")
    relative_gap: float | None = Field(description="Largest relative gap of the folds; null: none was proved.")


class Path(BaseModel):
    """The curve of a search, and the weights of models of all rows along C."""

    job_id: JobId
    metric: str = Field(description="Metric of the curve.")
    best: dict[str, Any] = Field(description="The best values, as in the result of the job.")
    curve: list[CurvePoint] = Field(description="The metric by ascending C, for the best combination of other values.")
    C: list[float] = Field(description="Values of C of `intercept` and `coef`, ascending.")
    n_features: int = Field(description="Number of features of the model; `features` has at most 1,000 of them.")
    features: list[str] = Field(description="Features with the largest weights, in the order of the model.")
    intercept: list[list[float]] = Field(description="For each C: the intercept; several classes: one for each.")
    coef: list[list[list[float]]] = Field(
        description="For each C and each class (one row for two classes or numbers): the weights of `features`, in "
        "the units of the solver, so that those of scaled columns can be compared."
    )


@router.get(
    "/{job_id}/path",
    operation_id="get_job_path",
    response_model=Path,
    responses={
        200: {
            "description": "The path. CSV and Arrow have one row for each C. SVG draws the curve with its bounds.",
            "content": {CSV: {}, ARROW: {}, SVG: {}},
        },
        **problems(404, 406, 409),
    },
)
def get_job_path(job_id: JobInPath, context: InContext, request: Request) -> Any:
    """Get the cross-validation curve and the weights by C of a tuning job.

    JSON, CSV (`Accept: text/csv`), Arrow (`application/vnd.apache.arrow.stream`) or a plot (`image/svg+xml`).
    """
    media_type = _negotiated(request.headers.get("accept"))
    with context.database.read() as session:
        job = service.get(session, job_id)
    _check_has_path(job)
    assert job.result is not None
    if media_type == SVG:
        return Response(curve_svg(job.result), media_type=SVG)
    content = context.blobs.path(job.result["path"]["sha256"]).read_bytes()
    if media_type == ARROW:
        return Response(content, media_type=ARROW)
    table, about = _read(content)
    if media_type == CSV:
        columns = {name: table.column(name).to_pylist() for name in table.column_names}
        return Response(encode(CSV, {}, columns), media_type=CSV)
    return _shown(job.id, table, about)


def _negotiated(accept: str | None) -> str:
    """Return the first offered type that the client accepts."""
    wanted = [part.partition(";")[0].strip().lower() for part in (accept or "*/*").split(",")]
    for media_type in OFFERED:
        if any(one in (media_type, "*/*", media_type.partition("/")[0] + "/*") for one in wanted):
            return media_type
    raise NotAcceptable(f"The response can be {', '.join(OFFERED)}; Accept lists none of them.")


def _check_has_path(job: JobRow) -> None:
    if job.type != "tune":
        raise Conflict(f"A job of type {job.type} has no path; use the id of a tuning job.", code="not_a_tuning_job")
    if job.status != JobStatus.SUCCEEDED:
        raise Conflict(f"The job is {job.status}; a path is there once it has succeeded.", code="no_path")


def _read(content: bytes) -> tuple[Any, dict[str, Any]]:
    import pyarrow as pa  # loading it takes long, and few processes need it

    table = pa.ipc.open_stream(io.BytesIO(content)).read_all()
    return table, json.loads(table.schema.metadata[b"hyperplane.path"])


def _shown(job_id: str, table: Any, about: dict[str, Any]) -> Path:
    rows = table.to_pylist()
    names = table.column_names
    starts = [place for place, name in enumerate(names) if name.startswith("intercept:")]
    width = len(about["features"])
    trained = [list(row.values()) for row in rows if starts and row[names[starts[0]]] is not None]
    return Path(
        job_id=job_id,
        metric=about["metric"],
        best=about["best"],
        curve=[CurvePoint(**{name: row[name] for name in CurvePoint.model_fields}) for row in rows],
        C=[row[0] for row in trained],
        n_features=about["n_features"],
        features=about["features"],
        intercept=[[row[start] for start in starts] for row in trained],
        coef=[[row[start + 1 : start + 1 + width] for start in starts] for row in trained],
    )
