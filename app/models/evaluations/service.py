"""Read evaluations. Jobs create them."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.db.tables import EvaluationRow
from app.errors import NotFound
from app.ids import is_id
from app.models import service as models
from app.models.evaluations import repository


def get(session: Session, evaluation_id: str) -> EvaluationRow:
    row = repository.get(session, evaluation_id) if is_id("ev", evaluation_id) else None
    if row is None:
        raise NotFound("There is no such evaluation.")
    return row


def list_of_model(session: Session, reference: str, limit: int, before_id: str | None) -> Sequence[EvaluationRow]:
    return repository.list_newest(session, models.locate(session, reference).id, limit, before_id)
