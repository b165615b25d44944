"""`Idempotency-Key`: a repeated request gets the response of the first request and is not executed again.

A route that changes something takes an `InOnce` and uses its unit of work:

    with once.write() as session:
        return once.answer(Thing.model_validate(service.make(session, body)))

The key and the response are stored in the transaction of the change, so after a crash either all three exist or none. A
simultaneous request with the same key waits for the first. If a request is refused, nothing is stored, and its key can
be used again.

A transaction cannot stay open while a body arrives for minutes. A route with such bodies takes an `InStreamedOnce`,
which claims the key first, renews the claim while the body arrives, and ends the claim in the transaction of the
change.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, TypeVar

from fastapi import Depends, FastAPI, Header, Request, Response
from pydantic import BaseModel
from sqlalchemy.orm import Session

from app.db import Database
from app.db.outages import DATABASE_ERRORS
from app.db.tables import IdempotencyRow
from app.errors import Conflict, Invalid
from app.web import idempotency_keys
from app.web.context import Context, InContext
from app.web.thread_rooms import WRITES

log = logging.getLogger(__name__)

KEEP_SECONDS = 24 * 3600.0
"""Seconds that the response of an idempotency key is stored. Larger: later repetitions are recognized, more rows in the
database. One day is set by hand."""
REPLAYED = "Idempotent-Replayed"
# Headers that change the meaning of a body and are therefore hashed. Their parameters are not, because multipart
# boundaries are random.
MEANING_HEADERS = ("content-type", "content-encoding", "upload-length", "upload-metadata", "if-match")

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern="^[!-~]+$",
        description="Key of your choice (1 to 255 visible ASCII characters). A repeated request with the same key is "
        "not executed again: for 24 hours it gets the first response.",
    ),
]

Answer = TypeVar("Answer", bound=BaseModel)


class Replayed(Exception):
    """Raised when the request was executed before. `response` is its stored response."""

    def __init__(self, row: IdempotencyRow) -> None:
        assert row.status is not None
        assert row.answer is not None
        super().__init__(row.key)
        self.response = Response(
            row.answer["body"],
            row.status,
            {**row.answer["headers"], REPLAYED: "true"},
            media_type="application/json",
        )


class Once:
    """A request that is executed at most once if it has an Idempotency-Key. Without a key, it is a plain unit of
    work."""

    def __init__(self, context: Context, request: Request, response: Response, key: str | None) -> None:
        self._database: Database = context.database
        self._lease_seconds = context.settings.lease_seconds
        self._request = request
        self._response = response
        self._caller: str = getattr(request.state, "caller", "")
        self._key = key
        self._sha256 = ""
        self._answer: BaseModel | None = None
        self._claimed_as = ""
        self._earlier: IdempotencyRow | None = None

    def understand(self, body_sha256: str) -> None:
        """Set the hash of the body. If the key is claimed and has a stored response, raise it as Replayed."""
        request = self._request
        meaning = [request.headers.get(name, "").partition(";")[0].strip().lower() for name in MEANING_HEADERS]
        parts = [request.method, request.url.path, request.url.query, *meaning, body_sha256]
        self._sha256 = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        if self._earlier is not None:
            self._judge(self._earlier)

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Open the unit of work of the change. The route must call `answer` before the unit of work ends."""
        with self._database.write() as session:
            if self._key is not None:
                earlier = idempotency_keys.take(session, self._caller, self._key, self._sha256, KEEP_SECONDS)
                if earlier is not None:
                    self._judge(earlier)
                self._claimed_as = self._sha256
            yield session
            if self._key is not None:
                assert self._answer is not None, "the route did not call answer()"
                self.finish(session, self._answer)

    def answer(self, document: Answer) -> Answer:
        """Set the response of the route, with its current status and headers, to be stored at the end of `write`.
        Returns `document`."""
        self._answer = document
        return document

    @asynccontextmanager
    async def claimed(self) -> AsyncIterator[None]:
        """Hold the claim of the key while the body arrives. The route must call `understand` and then `finish`."""
        if self._key is None:
            yield
            return
        await WRITES.run(self._claim)
        renewing = asyncio.create_task(self._keep_claim())
        try:
            yield
        except BaseException:  # nothing was changed, so free the key
            await WRITES.run(self._give_up)
            raise
        finally:
            renewing.cancel()

    def finish(self, session: Session, document: BaseModel) -> None:
        """Store the response, in the transaction of the change."""
        if self._key is None:
            return
        status = self._response.status_code or self._request.scope["route"].status_code or 200
        headers = {name: value for name, value in self._response.headers.items() if name != "content-length"}
        kept = {"headers": headers, "body": document.model_dump_json()}
        values = {"request_sha256": self._sha256, "status": status, "answer": kept}
        if not idempotency_keys.change(session, self._caller, self._key, self._claimed_as, KEEP_SECONDS, **values):
            raise _in_use()

    def _judge(self, earlier: IdempotencyRow) -> None:
        if earlier.status is None:
            raise _in_use()
        if earlier.request_sha256 != self._sha256:
            detail = "The Idempotency-Key was used for another request; use a new key for each new request."
            raise Invalid(detail, code="idempotency_key_reused")
        raise Replayed(earlier)

    def _claim(self) -> None:
        assert self._key is not None
        token = secrets.token_hex(32)
        with self._database.write() as session:
            earlier = idempotency_keys.take(session, self._caller, self._key, token, self._lease_seconds)
        if earlier is None:
            self._claimed_as = token
        elif earlier.status is None:
            raise _in_use()
        self._earlier = earlier

    async def _keep_claim(self) -> None:
        while self._claimed_as:
            await asyncio.sleep(self._lease_seconds / 3)
            try:
                await WRITES.run(self._renew)
            except DATABASE_ERRORS as error:
                log.warning("renewing the claim of an Idempotency-Key failed: %s", error)

    def _renew(self) -> None:
        assert self._key is not None
        with self._database.write() as session:
            idempotency_keys.change(session, self._caller, self._key, self._claimed_as, self._lease_seconds)

    def _give_up(self) -> None:
        assert self._key is not None
        try:
            with self._database.write() as session:
                idempotency_keys.give_up(session, self._caller, self._key, self._claimed_as)
        except DATABASE_ERRORS as error:
            log.warning("freeing an Idempotency-Key failed; it stays in use until its claim expires: %s", error)


async def _once(request: Request, response: Response, context: InContext, key: Key = None) -> Once:
    once = Once(context, request, response, key)
    if key is not None:
        once.understand(hashlib.sha256(await request.body()).hexdigest())
    return once


async def _streamed_once(request: Request, response: Response, context: InContext, key: Key = None) -> Once:
    return Once(context, request, response, key)


InOnce = Annotated[Once, Depends(_once)]
InStreamedOnce = Annotated[Once, Depends(_streamed_once)]


def install_replay(app: FastAPI) -> None:
    @app.exception_handler(Replayed)
    async def on_replay(_request: Request, replayed: Replayed) -> Response:
        return replayed.response


def forget_expired(database: Database) -> None:
    with database.read() as session:  # check with a read first, which needs no write lock on SQLite
        if not idempotency_keys.any_expired(session):
            return
    with database.write() as session:
        idempotency_keys.delete_expired(session)


def _in_use() -> Conflict:
    detail = "A request with this Idempotency-Key is still running; retry to get its response."
    return Conflict(detail, code="idempotency_key_in_use", headers={"Retry-After": "1"})
