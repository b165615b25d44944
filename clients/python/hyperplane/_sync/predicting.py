# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""Send rows to a route that predicts, and return the predictions in the shape of the rows."""

from typing import Any

from hyperplane._shared.payloads import is_frame
from hyperplane._shared.requests import Request, document_of
from hyperplane._shared.rows import predicted_frame, rows_body
from hyperplane._shared.types import Predictions
from hyperplane._sync.transport import Transport

__all__ = ["predicted", "row_request"]


def row_request(place: str, rows: Any, params: dict[str, Any], headers: dict[str, str] | None = None) -> Request:
    """Build a request whose body is rows. Predicting changes nothing, so it can be repeated."""
    body = rows_body(rows)
    sent = {**body.headers, **(headers or {})}
    return Request("POST", place, params=params, headers=sent, json=body.json, content=body.content, repeatable=True)


def predicted(transport: Transport, place: str, rows: Any, params: dict[str, Any]) -> Any:
    """Predict rows. Returns a frame for a frame, else `Predictions`."""
    response = transport.send(row_request(place, rows, params))
    if is_frame(rows):
        return predicted_frame(rows, response.content, response.headers.get("Content-Type", ""))
    return Predictions(document_of(response))
