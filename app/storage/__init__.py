"""Blobs: immutable files named by the SHA-256 of their content."""

from app.storage.blobs import BlobStore, StagedArray, StagedBlob

__all__ = ["BlobStore", "StagedArray", "StagedBlob"]
