"""Health checks: `/livez` (the process responds) and `/readyz` (database, schema, storage and kernels are usable)."""

from collections.abc import Callable
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from app.db.migrate import is_current
from app.errors import AppError
from app.storage.identity import StoreAway
from app.web.context import Context, InContext
from app.web.thread_rooms import HEALTH

router = APIRouter(tags=["health"])


class Liveness(BaseModel):
    """Response of the liveness check."""

    status: Literal["ok"] = Field("ok", description="Always `ok`: the process responds.")


class Readiness(BaseModel):
    """Response of the readiness check."""

    status: Literal["ready", "not_ready"] = Field(description="`ready` if all checks are `ok`.")
    checks: dict[str, str] = Field(
        description="Result of each check (`database`, `migrations`, `storage`, `kernels`): `ok`, or what is wrong."
    )
    training: Literal["ok", "compiling", "elsewhere"] = Field(
        description="Whether jobs start at once (`ok`). `compiling`: workers are starting, or kernels are being "
        "compiled; a job waits only for the kernels that it needs. `elsewhere`: this service has no workers."
    )


@router.get("/livez", operation_id="livez")
async def livez() -> Liveness:
    """Check that the process responds. Uses neither the database nor the storage."""
    return Liveness()


@router.get(
    "/readyz",
    operation_id="readyz",
    responses={503: {"model": Readiness, "description": "Not ready: `checks` shows what is missing."}},
)
async def readyz(response: Response, context: InContext) -> Readiness:
    """Check that requests can be served.

    The service is ready if the database is writable and has the current schema, the storage belongs to the database and
    is writable, the kernels of the file readers are compiled, and the process is not shutting down. `training` shows
    whether jobs start at once.
    """
    found = await HEALTH.run(readiness, context)
    response.status_code = 200 if found.status == "ready" else 503
    return found


def readiness(context: Context) -> Readiness:
    """Run all checks now. Blocks until the database and the storage have responded."""
    checks = {
        "database": _outcome(context.database.check_writable),
        "migrations": _outcome(lambda: None if is_current(context.database) else "not at head"),
        "storage": _outcome(context.blobs.check_writable),
        "kernels": "ok" if context.readers_warm() else "compiling",
    }
    if context.draining:
        checks["draining"] = "this process is shutting down"
    ready = all(outcome == "ok" for outcome in checks.values())
    return Readiness(status="ready" if ready else "not_ready", checks=checks, training=_training(context))


def _training(context: Context) -> Literal["ok", "compiling", "elsewhere"]:
    workers = context.workers
    return "elsewhere" if workers is None else "ok" if workers.ready else "compiling"


def _outcome(check: Callable[[], str | None]) -> str:
    try:
        return check() or "ok"
    except StoreAway as error:
        return f"failed: {error.strerror}"
    except AppError as error:
        return f"failed: {error.detail}"
    except Exception as error:
        return f"failed: {type(error).__name__}"
