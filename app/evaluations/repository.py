"""The SQL of evaluations."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.tables import EvaluationRow


def get(session: Session, evaluation_id: str) -> EvaluationRow | None:
    return session.get(EvaluationRow, evaluation_id)


def list_newest(session: Session, model_id: str, limit: int, before_id: str | None) -> Sequence[EvaluationRow]:
    query = select(EvaluationRow).where(EvaluationRow.model_id == model_id)
    if before_id is not None:
        query = query.where(EvaluationRow.id < before_id)
    return session.scalars(query.order_by(EvaluationRow.id.desc()).limit(limit)).all()
