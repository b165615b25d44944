"""How a job can end without a model.

Exception
├── PermanentFailure   the job cannot succeed, however often it is tried
├── Stopped            somebody wants the work to end: a client (cancel, pause) or the machine (drain)
├── LeaseLost          the job is somebody else's now (app.jobs.queue)
└── TransientFailure   the database does not answer; the job is given back
"""

from app.db.job_state import StopReason


class PermanentFailure(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "param": param}


class TransientFailure(Exception):
    pass


class Stopped(Exception):
    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason
