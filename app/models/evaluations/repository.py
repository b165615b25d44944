"""SQL of evaluations."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.db.queries import newest
from app.db.tables import EvaluationRow


def get(session: Session, evaluation_id: str) -> EvaluationRow | None:
    return session.get(EvaluationRow, evaluation_id)


def list_newest(session: Session, model_id: str, limit: int, before_id: str | None) -> Sequence[EvaluationRow]:
    return session.scalars(newest(EvaluationRow, limit, before_id, {EvaluationRow.model_id: model_id})).all()
