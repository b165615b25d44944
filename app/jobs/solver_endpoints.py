"""`GET /v1/solvers`: what can be asked for in a job."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

import solvers
from app.errors import problems

router = APIRouter(prefix="/v1/solvers", tags=["solvers"])


class SolverInfo(BaseModel):
    name: str
    tasks: list[str]
    losses: list[str]
    biases: list[str]
    options: dict[str, Any]
    paper: str
    notes: str


class SolverListing(BaseModel):
    data: list[SolverInfo]


@router.get("", operation_id="list_solvers", responses=problems())
async def list_solvers() -> SolverListing:
    """Every solver with its tasks, losses, biases, options and the paper that it comes from."""
    return SolverListing.model_validate(
        {"data": [{"name": name, **info} for name, info in solvers.available().items()]}
    )
