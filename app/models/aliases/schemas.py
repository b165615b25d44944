"""The shapes of an alias over HTTP."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from app.web.validation import Body

MOST_TARGETS = 16
MOST_VERSION = 10**15

Version = Annotated[int, Field(ge=1, lt=MOST_VERSION, strict=True)]  # neither true nor "3": a slip would move requests


class Target(Body):
    version: Version
    weight: Annotated[float, Field(gt=0, le=1e9)] = Field(
        1.0, description="its part of the requests, beside the others'"
    )


class AliasRequest(Body):
    """What an alias is set to: one version, or several by weight."""

    version: Version | None = None
    targets: Annotated[list[Target], Field(min_length=1, max_length=MOST_TARGETS)] | None = None
    shadow: Version | None = Field(None, description="a version that also scores every request, and never answers one")

    @model_validator(mode="after")
    def names_each_version_once(self) -> Self:
        if (self.version is None) == (self.targets is None):
            raise ValueError("give either version or targets")
        versions = [one.version for one in self.resolved_targets]
        if len(set(versions)) < len(versions):
            raise ValueError("targets names a version twice")
        if self.shadow in versions:
            raise ValueError("shadow answers requests already; name another version")
        return self

    @property
    def resolved_targets(self) -> list[Target]:
        return self.targets or [Target(version=self.version or 1, weight=1.0)]


class RollbackRequest(Body):
    revision: Annotated[int, Field(ge=1, lt=MOST_VERSION)] | None = Field(
        None, description="what to go back to; null: what was set before the current revision"
    )


class ShadowStats(BaseModel):
    """How the shadow compares with the answers, counted by the process that you ask, since it first mirrored."""

    version: int
    requests: int
    rows: int
    label_differences: int = Field(description="rows that the shadow labels otherwise")
    mean_score_difference: float | None = Field(description="absolute; null: nothing to compare")
    max_score_difference: float | None
    failures: int = Field(description="requests that the shadow could not answer")
    dropped: int = Field(description="requests that were not mirrored because too many waited")


class AliasTarget(BaseModel):
    version: int
    weight: float = Field(description="share of the requests; all of them add up to 1")


class Alias(BaseModel):
    name: str
    alias: str
    revision: int
    version: int = Field(description="the target that most requests go to")
    targets: list[AliasTarget]
    shadow: int | None
    updated_at: datetime
    shadow_stats: ShadowStats | None = None


class AliasChange(BaseModel):
    revision: int
    targets: list[AliasTarget] | None = Field(description="null: the alias was deleted")
    shadow: int | None
    created_at: datetime


def shown(row: Any) -> dict[str, Any]:
    heaviest = max(row.targets, key=lambda one: one["weight"])
    names = ("name", "alias", "revision", "targets", "shadow", "updated_at")
    return {"version": heaviest["version"], **{name: getattr(row, name) for name in names}}
