"""`GET /v1/solvers`: the solvers that a training job can use."""

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

import solvers
from app.errors import problems

router = APIRouter(prefix="/v1/solvers", tags=["solvers"])


class SolverInfo(BaseModel):
    """A solver and the problems that it can solve."""

    name: str = Field(description="Name for the field `solver` of a training job.")
    tasks: list[str] = Field(description="Tasks that it can solve.")
    losses: list[str] = Field(description="Loss functions that it can minimise.")
    biases: list[str] = Field(description="How it can treat the intercept; see the field `bias` of a training job.")
    options: dict[str, Any] = Field(description="Options for `solver_options`, each with its type, default and range.")
    paper: str = Field(description="Paper that describes the algorithm, by author and year.")
    notes: str = Field(description="When to use it.")


class SolverListing(BaseModel):
    """All solvers."""

    data: list[SolverInfo] = Field(description="Solvers, by name.")


@router.get("", operation_id="list_solvers", responses=problems())
async def list_solvers() -> SolverListing:
    """List the solvers with their tasks, losses, options and papers."""
    return SolverListing.model_validate(
        {"data": [{"name": name, **info} for name, info in solvers.available().items()]}
    )
