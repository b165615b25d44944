"""The part of equivalent.py that is about the service: keys, jobs and storage."""

from typing import NamedTuple


class Equivalent(NamedTuple):
    path: str
    before: str
    after: str
    reason: str


ORDER = "Conditions that are joined by AND, in the other order."
LOG = "Only a line of the log depends on it."

SERVICE_EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        "app/ids.py",
        'return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * (_LENGTH - 2), -1, -10)])',
        'return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * (_LENGTH - 2), -2, -10)])',
        "The last shift is 0 either way.",
    ),
    Equivalent("app/ids.py", "number = 0", "number = 1", "The bit is shifted out of what 26 digits show."),
    Equivalent("app/ids.py", "_last = 0", "_last = 1", "Every number of this century is larger."),
    *(
        Equivalent(
            "app/keys/guard.py",
            f"{name} = frozenset({{{members}}})",
            f"{name} = ({{{members}}})",
            "Nothing changes the set.",
        )
        for name, members in (
            ("OPEN_PATHS", '"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"'),
            ("OPEN_REDIRECTS", '"/", "/ui"'),
            ("SAFE_METHODS", '"GET", "HEAD", "OPTIONS"'),
        )
    ),
    Equivalent(
        "app/keys/guard.py",
        "room = None if is_upload else self._predict_bodies if _is_predict(scope) else self._other_bodies",
        "room = None if is_upload else self._predict_bodies if not (_is_predict(scope)) else self._other_bodies",
        "Two rooms of the same size change places.",
    ),
    *(
        Equivalent(
            "app/keys/guard.py",
            "if length.isdigit() and int(length[:30]) > limit:",
            f"if length.isdigit() and int(length[:{digits}]) > limit:",
            "Any number of digits that the limit has not, and that int takes.",
        )
        for digits in (29, 60)
    ),
    Equivalent(
        "app/keys/repository.py",
        "return session.scalar(select(KeyRow).where(KeyRow.id == key_id, KeyRow.revoked_at.is_(None)))",
        "return session.scalar(select(KeyRow).where(KeyRow.revoked_at.is_(None), KeyRow.id == key_id))",
        ORDER,
    ),
    Equivalent(
        "app/keys/repository.py",
        "return session.scalar(select(KeyRow.id).where(KeyRow.revoked_at.is_(None)).limit(1)) is not None",
        "return session.scalar(select(KeyRow.id).where(KeyRow.revoked_at.is_(None)).limit(2)) is not None",
        "Only the first row is read.",
    ),
    Equivalent(
        "app/keys/service.py",
        "if not hmac.compare_digest(_digest(secret), expected) or key is None:",
        "if not hmac.compare_digest(expected, _digest(secret)) or key is None:",
        "A comparison from both ends.",
    ),
    Equivalent(
        "app/keys/session_store.py",
        ".where(SessionRow.id == session_id, SessionRow.expires_at > now, KeyRow.revoked_at.is_(None))",
        ".where(SessionRow.id == session_id, KeyRow.revoked_at.is_(None), SessionRow.expires_at > now)",
        ORDER,
    ),
    Equivalent(
        "app/keys/session_store.py",
        ".where(SessionRow.id == session_id, SessionRow.expires_at > now, KeyRow.revoked_at.is_(None))",
        ".where(SessionRow.expires_at > now, SessionRow.id == session_id, KeyRow.revoked_at.is_(None))",
        ORDER,
    ),
    *(
        Equivalent(
            "app/keys/session_store.py",
            "select(SessionRow.secret_sha256, SessionRow.expires_at, KeyRow.id, KeyRow.scopes)",
            f"select({columns})",
            "Columns are read by name.",
        )
        for columns in (
            "SessionRow.expires_at, SessionRow.secret_sha256, KeyRow.id, KeyRow.scopes",
            "SessionRow.secret_sha256, KeyRow.id, SessionRow.expires_at, KeyRow.scopes",
            "SessionRow.secret_sha256, SessionRow.expires_at, KeyRow.scopes, KeyRow.id",
        )
    ),
    Equivalent(
        "app/keys/session_store.py",
        "session.flush()",
        "pass",
        "The next query or the commit writes the row; the key was found in the same transaction.",
    ),
    Equivalent(
        "app/keys/session_store.py",
        "if row is None or not hmac.compare_digest(_digest(secret), row.secret_sha256):",
        "if row is None or not hmac.compare_digest(row.secret_sha256, _digest(secret)):",
        "A comparison from both ends.",
    ),
    Equivalent(
        "app/keys/session_store.py",
        'return hmac.compare_digest(csrf_token(token).encode(), sent.encode("utf-8", "surrogatepass"))',
        'return hmac.compare_digest(sent.encode("utf-8", "surrogatepass"), csrf_token(token).encode())',
        "A comparison from both ends.",
    ),
    Equivalent(
        "app/jobs/repository.py",
        ".where(JobRow.status == JobStatus.RUNNING, JobRow.lease_expires_at < current_time(session))",
        ".where(JobRow.lease_expires_at < current_time(session), JobRow.status == JobStatus.RUNNING)",
        ORDER,
    ),
    Equivalent(
        "app/jobs/repository.py",
        "newer = or_(*(and_(EventRow.job_id == job_id, EventRow.id > after) for job_id, after in part))",
        "newer = or_(*(and_(EventRow.id > after, EventRow.job_id == job_id) for job_id, after in part))",
        ORDER,
    ),
    Equivalent(
        "app/jobs/repository.py",
        "select(JobRow.id, JobRow.fence, JobRow.lease_owner)",
        "select(JobRow.id, JobRow.lease_owner, JobRow.fence)",
        "Columns are read by name.",
    ),
    Equivalent(
        "app/jobs/repository.py",
        ".returning(JobRow.id, JobRow.fence, JobRow.attempt, JobRow.peak_bytes)",
        ".returning(JobRow.id, JobRow.fence, JobRow.peak_bytes, JobRow.attempt)",
        "Columns are read by name.",
    ),
    Equivalent(
        "app/worker/slot.py",
        "if stronger(reason, self.stop_reason) != self.stop_reason:",
        "if stronger(self.stop_reason, reason) != self.stop_reason:",
        "The stronger of two reasons, in either order.",
    ),
    Equivalent(
        "app/datasets/uploads/part_files.py",
        "left = memoryview(chunk)",
        "left = (chunk)",
        "Speed only: the rest of the bytes is copied.",
    ),
    Equivalent(
        "app/datasets/uploads/endpoints.py",
        "service.check_length(upload_length or 0, settings)",
        "service.check_length(upload_length or 1, settings)",
        "A limit is at least one byte.",
    ),
    Equivalent(
        "app/storage/blobs.py",
        'mapped: np.ndarray[Any, Any] = np.load(self.path(sha256), mmap_mode="r", allow_pickle=False)',
        'mapped: np.ndarray[Any, Any] = np.load(self.path(sha256), mmap_mode="r", allow_pickle=True)',
        "numpy maps no objects either way.",
    ),
    Equivalent("app/worker/supervisor.py", "if not self._storage_failed:", "if self._storage_failed:", LOG),
)
