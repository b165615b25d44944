"""The error that the client raises for an error response."""

from typing import Any

import httpx

Json = dict[str, Any]


class ApiError(Exception):
    """The server responded with an error; `problem` is its problem document."""

    def __init__(self, problem: Json) -> None:
        super().__init__(problem.get("detail", "the server responded with an error"))
        self.problem = problem


def checked(response: httpx.Response) -> Json:
    body: Json = response.json()
    if response.is_error:
        raise ApiError(body)
    return body
