"""Request and response schemas of aliases."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.web.fields import CreatedAt
from app.web.validation import Body

MOST_TARGETS = 16
"""Maximum number of versions that share the requests of an alias. Larger: larger rows and responses. Set by hand; no
measurement is recorded."""
MOST_VERSION = 10**15
"""Upper limit of version and revision numbers: 15 digits fit a cursor and an integer of either database."""

# Strict: `true` or "3" is an error, because a slip would send requests to another version.
Version = Annotated[int, Field(ge=1, lt=MOST_VERSION, strict=True)]
VersionShown = Annotated[int, Field(description="Version number.")]
ShadowShown = Annotated[int | None, Field(description="Version that scores a copy of every request; null: none.")]
RevisionShown = Annotated[int, Field(description="Number of the change, from 1.")]


class Target(Body):
    """A version that receives requests, and its weight."""

    version: Version = Field(description="Version number.")
    weight: Annotated[float, Field(gt=0, le=1e9)] = Field(
        1.0, description="Relative weight: the share of the requests is weight / sum of all weights."
    )


class AliasRequest(Body):
    """New value of an alias: one version, or several by weight. Give either `version` or `targets`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"version": 1}, {"targets": [{"version": 1, "weight": 9}]}]}
    )

    version: Version | None = Field(None, description="Version that receives all requests. Give it or `targets`.")
    targets: Annotated[list[Target], Field(min_length=1, max_length=MOST_TARGETS)] | None = Field(
        None, description="Versions that share the requests by weight (canary). Give them or `version`."
    )
    shadow: Version | None = Field(
        None, description="Version that scores a copy of every request without answering; null: none."
    )

    @model_validator(mode="after")
    def names_each_version_once(self) -> Self:
        if (self.version is None) == (self.targets is None):
            raise ValueError("give either version or targets")
        versions = [one.version for one in self.resolved_targets]
        if len(set(versions)) < len(versions):
            raise ValueError("targets names a version twice; name each version once")
        if self.shadow in versions:
            raise ValueError("shadow must not be one of the targets; name another version")
        return self

    @property
    def resolved_targets(self) -> list[Target]:
        return self.targets or [Target(version=self.version or 1, weight=1.0)]


class RollbackRequest(Body):
    """Which earlier value an alias returns to."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"revision": 1}]})

    revision: Annotated[int, Field(ge=1, lt=MOST_VERSION)] | None = Field(
        None, description="Revision to return to; null: the one before the current revision."
    )


class ShadowStats(BaseModel):
    """Comparison of the shadow with the answers, counted by the API process that answers this request."""

    version: VersionShown
    requests: int = Field(description="Number of mirrored requests.")
    rows: int = Field(description="Number of mirrored rows.")
    label_differences: int = Field(description="Number of rows for which the shadow predicts another label.")
    mean_score_difference: float | None = Field(
        description="Mean absolute difference of the scores; null: nothing was compared."
    )
    max_score_difference: float | None = Field(
        description="Largest absolute difference of the scores; null: nothing was compared."
    )
    failures: int = Field(description="Number of requests that the shadow could not score.")
    dropped: int = Field(description="Number of requests that were not mirrored because the queue was full.")


class AliasTarget(BaseModel):
    """A version that receives requests, and its share."""

    version: VersionShown
    weight: float = Field(description="Share of the requests; the shares add up to 1.")


class Alias(BaseModel):
    """A name for one or several versions of a model."""

    name: str = Field(description="Name of the model.")
    alias: str = Field(description="Name of the alias.")
    revision: RevisionShown
    version: int = Field(description="Version that receives the largest share of the requests.")
    targets: list[AliasTarget] = Field(description="Versions that receive requests, with their shares.")
    shadow: ShadowShown
    updated_at: datetime = Field(description="Time of the last change (RFC 3339, UTC).")
    shadow_stats: ShadowStats | None = Field(None, description="Comparison of the shadow; null: no request mirrored.")


class AliasChange(BaseModel):
    """One revision of an alias."""

    revision: RevisionShown
    targets: list[AliasTarget] | None = Field(description="Versions and shares; null: the alias was deleted.")
    shadow: ShadowShown
    created_at: CreatedAt


def shown(row: Any) -> dict[str, Any]:
    heaviest = max(row.targets, key=lambda one: one["weight"])
    names = ("name", "alias", "revision", "targets", "shadow", "updated_at")
    return {"version": heaviest["version"], **{name: getattr(row, name) for name in names}}
