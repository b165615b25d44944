"""`/v1/session`: a browser signs in with an API key, and then sends a cookie that scripts cannot read."""

from datetime import datetime

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session as DatabaseSession

from app.errors import Unauthorized, problems
from app.keys import service, session_store
from app.keys.session_store import COOKIE, SESSION_SECONDS, SignedIn
from app.names import Text
from app.web.context import Context, InContext
from app.web.thread_rooms import RoomRoute
from app.web.validation import Body, json_only, no_body

router = APIRouter(prefix="/v1/session", tags=["session"], dependencies=[Depends(json_only)], route_class=RoomRoute)

EVERY_SCOPE = ["admin", "predict", "read", "write"]


class SignIn(Body):
    """Request to sign in: the API key to exchange for a session."""

    key: Text = Field(description="An API key, `key_….secret`.", max_length=256)


class BrowserSession(BaseModel):
    """Who the caller is and what it is allowed to do."""

    required: bool = Field(
        description="Whether requests need a key. false: every program on this machine can use the service."
    )
    signed_in: bool = Field(description="Whether this request has a valid session or key.")
    key_id: str | None = Field(description="Id of the key of the session; null: no key.")
    scopes: list[str] = Field(description="Scopes of the caller: `read`, `write`, `predict`, `admin`.")
    csrf_token: str | None = Field(
        description="CSRF token to send as `X-CSRF-Token` with every change that the cookie authorizes; null "
        "without a cookie."
    )
    expires_at: datetime | None = Field(description="Time when the session ends; null: never.")


@router.post("", status_code=201, operation_id="create_session", responses=problems(400, 413, 415))
def create_session(body: SignIn, request: Request, response: Response, context: InContext) -> BrowserSession:
    """Sign in. The response sets an HttpOnly cookie and contains the CSRF token that changes must send."""
    with context.database.write() as session:
        token = session_store.open_session(session, body.key.strip())
        if token is None:
            raise Unauthorized("The API key is unknown or revoked; sign in with another key.")
        shown = _show(context, session, session_store.find(session, token), token)
    response.set_cookie(
        COOKIE,
        token,
        max_age=SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return shown


@router.get("", operation_id="get_session", responses=problems())
def get_session(request: Request, response: Response, context: InContext) -> BrowserSession:
    """Get the scopes of the caller. Needs no key, so that a page can find out whether a sign-in is needed."""
    response.headers["Cache-Control"] = "no-store"
    token = request.cookies.get(COOKIE, "")
    bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
    with context.database.read() as session:
        if bearer:
            return _show(context, session, _key(session, bearer), None)
        return _show(context, session, session_store.find(session, token), token)


@router.delete(
    "", status_code=204, operation_id="delete_session", responses=problems(), dependencies=[Depends(no_body)]
)
def delete_session(request: Request, response: Response, context: InContext) -> None:
    """Sign out. The session ends in all API processes, and the cookie is deleted."""
    with context.database.write() as session:
        session_store.close_session(session, request.cookies.get(COOKIE, ""))
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def _key(session: DatabaseSession, token: str) -> SignedIn | None:
    scopes = service.authenticate(session, token) if service.can_be_key(token) else None
    return SignedIn(token.partition(".")[0], scopes) if scopes is not None else None


def _show(context: Context, session: DatabaseSession, signed_in: SignedIn | None, token: str | None) -> BrowserSession:
    required = not context.settings.bound_to_loopback or service.any_active(session)
    scopes = sorted(signed_in.scopes) if signed_in else [] if required else EVERY_SCOPE
    return BrowserSession(
        required=required,
        signed_in=signed_in is not None,
        key_id=signed_in.key_id if signed_in else None,
        scopes=scopes,
        csrf_token=session_store.csrf_token(token) if signed_in and token else None,
        expires_at=signed_in.expires_at if signed_in else None,
    )
