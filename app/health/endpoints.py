"""`/livez` needs nothing; `/readyz` looks at everything that an answer depends on."""

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
    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    status: Literal["ready", "not_ready"]
    checks: dict[str, str]
    training: Literal["ok", "compiling", "elsewhere"] = Field(
        description="Whether jobs run at once. `compiling`: the workers start, kernels of what `auto` can take are not "
        "compiled yet, or a job waits for kernels that are being compiled. Jobs are taken as soon as the workers have "
        "started; each waits for its own kernels only. `elsewhere`: this service has no workers of its own."
    )


@router.get("/livez", operation_id="livez")
async def livez() -> Liveness:
    return Liveness()


@router.get(
    "/readyz",
    operation_id="readyz",
    responses={503: {"model": Readiness, "description": "Not ready: `checks` says what is missing"}},
)
async def readyz(response: Response, context: InContext) -> Readiness:
    """Database writable, schema current, storage the right one and writable, parser compiled, not about to end.

    `training` says whether jobs are taken.
    """
    found = await HEALTH.run(readiness, context)
    response.status_code = 200 if found.status == "ready" else 503
    return found


def readiness(context: Context) -> Readiness:
    """What an answer depends on, looked at now (blocking)."""
    checks = {
        "database": _outcome(context.database.check_writable),
        "migrations": _outcome(lambda: None if is_current(context.database) else "not at head"),
        "storage": _outcome(context.blobs.check_writable),
        "kernels": "ok" if context.readers_warm() else "compiling",
    }
    if context.draining:
        checks["draining"] = "this process is about to end"
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
