"""`/v1/models/{ref}/report`: one page about a model."""

from fastapi import APIRouter, Response

from app.errors import NotFound, problems
from app.models import file, service
from app.models.endpoints import show
from app.models.weights import strongest_weights
from app.reports.facts import Facts, dataset_of, job_of, trace_of
from app.reports.page import POLICY, write_page
from app.web.context import InContext
from app.web.fields import ModelInPath
from app.web.thread_rooms import RoomRoute

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=RoomRoute)

STRONGEST = 15
"""Features of each class that are listed. Larger: longer tables. Set by hand."""
HTML_TYPE = "text/html"


@router.get(
    "/{ref}/report",
    operation_id="get_model_report",
    response_class=Response,
    responses={
        200: {"description": "The page", "content": {HTML_TYPE: {"schema": {"type": "string"}}}},
        **problems(404),
    },
)
def get_model_report(ref: ModelInPath, context: InContext) -> Response:
    """Get a report of a model as one HTML file without scripts: certificate, convergence, metrics, curves, confusion,
    calibration, strongest weights, data, lineage, and the request that trains it again."""
    with context.database.read() as session:
        row = service.resolve(session, ref)
        model, dataset, job = show(session, row), dataset_of(session, row), job_of(session, row)
        trace, blob = trace_of(job, row), row.blob
        sent = job.spec if job is not None and job.type == "train" else None
    try:
        stored = file.read(context.blobs.path(blob))
    except FileNotFoundError:
        raise NotFound("The model has just been purged; its weights are deleted.") from None
    weights = strongest_weights(model.id, stored, STRONGEST).classes
    headers = {
        "Content-Disposition": f'inline; filename="{model.name}-{model.version}.html"',
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
    }
    page = write_page(Facts(model, weights, trace, dataset, sent))
    return Response(page, media_type=HTML_TYPE, headers=headers)
