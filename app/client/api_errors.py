"""What the client raises when the server refuses."""

from typing import Any

import httpx

Json = dict[str, Any]


class ApiError(Exception):
    """The server refused; `problem` is its problem document."""

    def __init__(self, problem: Json) -> None:
        super().__init__(problem.get("detail", "the server refused"))
        self.problem = problem


def checked(response: httpx.Response) -> Json:
    body: Json = response.json()
    if response.is_error:
        raise ApiError(body)
    return body
