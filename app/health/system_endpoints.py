"""`GET /v1/system`: counts, workers, memory, storage and readiness in one response, for an operator's page."""

import shutil

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app import __version__
from app.db.job_state import JobStatus
from app.db.tables import BlobOwnerRow, DatasetRow, JobRow, ModelRow
from app.errors import problems
from app.health.endpoints import Readiness, readiness
from app.web.context import Context, InContext

router = APIRouter(prefix="/v1/system", tags=["health"])


class JobCounts(BaseModel):
    """Jobs by their status."""

    queued: int = Field(0, description="Jobs that wait for a worker.")
    running: int = Field(0, description="Jobs that a worker runs.")
    paused: int = Field(0, description="Jobs that wait until a client resumes them.")
    succeeded: int = Field(0, description="Jobs that ended with a result.")
    failed: int = Field(0, description="Jobs that ended with an error.")
    cancelled: int = Field(0, description="Jobs that a client cancelled.")


class Training(BaseModel):
    """The training processes and their memory."""

    workers: int = Field(description="Training processes of this service; 0: workers run elsewhere.")
    memory_budget_bytes: int = Field(
        description="Maximum memory of all training processes of a machine together, in bytes."
    )
    memory_needed_bytes: int = Field(description="Estimated memory of all running jobs on all machines, in bytes.")


class Storage(BaseModel):
    """Disk space of the blob store."""

    used_bytes: int = Field(
        description="Total size of the files of datasets, models, checkpoints and outputs, in bytes."
    )
    free_bytes: int = Field(description="Free space of the disk with these files, in bytes.")
    total_bytes: int = Field(description="Size of the same disk, in bytes.")
    reserved_bytes: int = Field(
        description="Space that uploads and new jobs leave free, in bytes (HYPERPLANE_FREE_SPACE_BYTES)."
    )


class System(BaseModel):
    """The state of the whole service."""

    version: str = Field(description="Version of Hyperplane.")
    database: str = Field(description="Database in use: `sqlite` or `postgresql`.")
    datasets: int = Field(description="Number of datasets.")
    models: int = Field(description="Number of model versions that are not deleted.")
    jobs: JobCounts = Field(description="Number of jobs by status.")
    training: Training = Field(description="Workers and their memory.")
    storage: Storage = Field(description="Files and disk space.")
    readiness: Readiness = Field(description="The response of `/readyz`.")


@router.get("", operation_id="get_system", responses=problems())
def get_system(context: InContext) -> System:
    """Get counts, workers, memory, storage, readiness and the version in one response."""
    with context.database.read() as session:
        return _look(context, session)


def _look(context: Context, session: Session) -> System:
    settings = context.settings
    by_status = dict(session.execute(select(JobRow.status, func.count()).group_by(JobRow.status)).all())
    needed = select(func.sum(JobRow.peak_bytes)).where(JobRow.status == JobStatus.RUNNING)
    files = select(BlobOwnerRow.sha256, func.max(BlobOwnerRow.bytes).label("bytes")).group_by(BlobOwnerRow.sha256)
    disk = shutil.disk_usage(settings.data_dir)
    return System(
        version=__version__,
        database=session.get_bind().dialect.name,
        datasets=_count(session, select(func.count()).select_from(DatasetRow)),
        models=_count(session, select(func.count()).select_from(ModelRow).where(ModelRow.deleted_at.is_(None))),
        jobs=JobCounts(**by_status),
        training=Training(
            workers=settings.workers,
            memory_budget_bytes=settings.memory_budget_bytes,
            memory_needed_bytes=_count(session, needed),
        ),
        storage=Storage(
            used_bytes=_count(session, select(func.sum(files.subquery().c.bytes))),
            free_bytes=disk.free,
            total_bytes=disk.total,
            reserved_bytes=settings.free_space_bytes,
        ),
        readiness=readiness(context),
    )


def _count(session: Session, query: object) -> int:
    return int(session.scalar(query) or 0)  # type: ignore[call-overload]
