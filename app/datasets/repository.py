"""The SQL of datasets."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.tables import DatasetRow


def insert(session: Session, dataset: DatasetRow) -> None:
    session.add(dataset)
    session.flush()


def get(session: Session, dataset_id: str) -> DatasetRow | None:
    return session.get(DatasetRow, dataset_id)


def get_by_fingerprint(session: Session, fingerprint: str) -> DatasetRow | None:
    return session.scalar(select(DatasetRow).where(DatasetRow.fingerprint == fingerprint))


def list_newest(
    session: Session, limit: int, before_id: str | None, name: str | None, labels: dict[str, str]
) -> Sequence[DatasetRow]:
    query = select(DatasetRow).order_by(DatasetRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(DatasetRow.id < before_id)
    if name is not None:
        query = query.where(DatasetRow.name == name)
    for key, value in labels.items():
        query = query.where(DatasetRow.labels[key].as_string() == value)
    return session.scalars(query).all()


def delete(session: Session, dataset: DatasetRow) -> None:
    session.delete(dataset)
