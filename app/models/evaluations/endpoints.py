"""`/v1/evaluations/{id}` and `/v1/models/{ref}/evaluations`: the reports of evaluation jobs."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.db.tables import EvaluationRow
from app.errors import problems
from app.models.evaluations import service
from app.models.evaluations.schemas import Evaluation, EvaluationSummary
from app.web.context import InContext
from app.web.fields import EvaluationInPath, ModelInPath
from app.web.pagination import InPage, Listing, listing

router = APIRouter(prefix="/v1", tags=["evaluations"])


@router.get("/models/{ref}/evaluations", operation_id="list_evaluations", responses=problems(404))
def list_evaluations(
    ref: ModelInPath, context: InContext, page: InPage, request: Request, response: Response
) -> Listing[EvaluationSummary]:
    """List the evaluations of a model version, newest first."""
    with context.database.read() as session:
        rows = service.list_of_model(session, ref, page.limit + 1, page.cursor_id)
    return Listing[EvaluationSummary].model_validate(listing(request, response, page, rows, _show))


@router.get("/evaluations/{evaluation_id}", operation_id="get_evaluation", responses=problems(404))
def get_evaluation(evaluation_id: EvaluationInPath, context: InContext) -> Evaluation:
    """Get an evaluation with its curves. It is kept when its model or dataset is deleted."""
    with context.database.read() as session:
        return Evaluation.model_validate(_show(service.get(session, evaluation_id)))


def _show(row: EvaluationRow) -> dict[str, Any]:
    names = ("id", "model_id", "dataset_id", "job_id", "created_at")
    return {**{name: getattr(row, name) for name in names}, **row.report}
