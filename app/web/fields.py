"""Fields and path parameters that several schemas share, each described once."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import Header, Path, Query
from pydantic import Field

from app.ids import id_pattern

__all__ = [
    "AliasName",
    "CreatedAt",
    "DatasetId",
    "DatasetInPath",
    "EvaluationInPath",
    "JobId",
    "JobInPath",
    "LabelsShown",
    "LastEventId",
    "ModelId",
    "ModelInPath",
    "ModelNameInPath",
    "UploadInPath",
    "VersionInPath",
    "View",
    "WebhookInPath",
]

DatasetInPath = Annotated[str, Path(description="Id of the dataset (`ds_…`).")]
UploadInPath = Annotated[str, Path(description="Id of the upload (`up_…`).")]
JobInPath = Annotated[str, Path(description="Id of the job (`job_…`).")]
ModelInPath = Annotated[
    str,
    Path(
        description="Reference to a model: its id (`mdl_…`), `name` (newest version), `name:3` (version 3) or "
        "`name@alias`."
    ),
]
ModelNameInPath = Annotated[str, Path(description="Name of the model.")]
VersionInPath = Annotated[
    str,
    Path(description="Version number of the model.", json_schema_extra={"type": "integer", "minimum": 1}),
]
AliasName = Annotated[str, Path(description="Name of the alias: 1 to 128 letters, digits, `.`, `_` or `-`.")]
EvaluationInPath = Annotated[str, Path(description="Id of the evaluation (`ev_…`).")]
WebhookInPath = Annotated[str, Path(description="Id of the webhook (`wh_…`).")]

View = Annotated[
    Literal["full", "summary"],
    Query(description="`summary`: only the main figures, without curves, lists and the request. Default: all fields."),
]

LastEventId = Annotated[
    str | None,
    Header(
        description="Start after the event with this id (`evt_…`). An empty header has no effect.",
        json_schema_extra={"pattern": f"^({id_pattern('evt')})?$"},
    ),
]

DatasetId = Annotated[str, Field(description="Id of the dataset (`ds_…`).")]
JobId = Annotated[str, Field(description="Id of the job (`job_…`).")]
ModelId = Annotated[str, Field(description="Id of the model version (`mdl_…`).")]
CreatedAt = Annotated[datetime, Field(description="Time of creation (RFC 3339, UTC).")]
LabelsShown = Annotated[dict[str, str], Field(description="Labels that the client attached: key to value.")]
