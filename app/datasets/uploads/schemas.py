"""The shapes of a resumable upload over HTTP."""

from datetime import datetime

from pydantic import BaseModel, Field


class Upload(BaseModel):
    id: str
    offset: int = Field(description="bytes that are safely stored: go on from here")
    length: int | None = Field(description="bytes in all, if the client has said so")
    complete: bool
    dataset_id: str | None = Field(description="what it became; null until it is complete")
    created_at: datetime
    expires_at: datetime = Field(description="when it is forgotten if nobody goes on with it")
