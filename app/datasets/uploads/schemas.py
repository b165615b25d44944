"""Response schema of `/v1/uploads`."""

from datetime import datetime

from pydantic import BaseModel, Field

from app.web.fields import CreatedAt


class Upload(BaseModel):
    """A resumable upload."""

    id: str = Field(description="Id of the upload (`up_…`).")
    offset: int = Field(description="Bytes that are durably stored. Continue with the byte at this offset.")
    length: int | None = Field(description="Size of the whole file in bytes; null: the client has not announced it.")
    complete: bool = Field(description="Whether all bytes have arrived.")
    dataset_id: str | None = Field(
        description="Id of the dataset made from the upload; null until the upload is complete."
    )
    created_at: CreatedAt
    expires_at: datetime = Field(description="Time when the upload is deleted if no more bytes arrive.")
