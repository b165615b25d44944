"""Settings, read from `HYPERPLANE_*` environment variables. Command-line flags are turned into such variables."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from app.system.resources import memory_bytes

PREFIX = "HYPERPLANE_"
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")

GIB = 1 << 30
MIB = 1 << 20
SHARE_FOR_TRAINING = 0.7
"""Default share of the machine's memory for training processes. Larger: larger jobs are admitted, and less memory is
left for the API, the parser processes and the page cache. Set by hand; no measurement is recorded."""


class Settings(BaseSettings):
    """The settings of a deployment. The environment variable of a field is HYPERPLANE_ and the field's name in
    capitals."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    data_dir: Path = Field(Path("data"), description="Folder for files and, by default, the SQLite database.")
    database_url: str = Field("", description="SQLAlchemy URL of the database. Empty: SQLite in the data folder.")
    host: str = Field("127.0.0.1", description="Address to bind. Any address but loopback needs an API key.")
    path_prefix: str = Field(
        "",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="Path prefix that a reverse proxy adds and does not strip, such as `/tools/hyperplane`.",
    )
    port: int = Field(8000, ge=0, le=65535, description="TCP port to bind.")
    workers: int = Field(
        default_factory=lambda: max(1, os.cpu_count() or 1),
        ge=0,
        le=256,
        description="Training processes on this machine. 0: API only. Default: the number of CPUs.",
    )
    memory_budget_bytes: int = Field(
        default_factory=lambda: int(SHARE_FOR_TRAINING * memory_bytes()),
        gt=0,
        description="Memory for all training processes of the machine together, in bytes. A job that needs more "
        "is refused with 422. Default: 70 % of the machine's memory.",
    )
    processes: int = Field(1, ge=1, le=64, description="API processes that share the port.")
    lease_seconds: float = Field(
        30.0, gt=0, description="Seconds without a heartbeat after which another worker takes over a job."
    )
    heartbeat_seconds: float = Field(
        5.0, gt=0, description="Seconds between two heartbeats of a worker. Must be well below lease_seconds."
    )
    poll_seconds: float = Field(0.2, gt=0, description="Seconds between two queries of the queue by an idle worker.")
    checkpoint_seconds: float = Field(
        30.0, gt=0, description="Seconds between two checkpoints of a training: a crash loses at most this much of it."
    )
    storage_patience_seconds: float = Field(
        600.0, ge=0, description="Seconds that a job waits for a failing disk or database before it fails."
    )
    drain_seconds: float = Field(8.0, gt=0, description="Seconds that a shutdown waits for running requests and jobs.")
    max_upload_bytes: int = Field(16 * GIB, gt=0, description="Maximum size of an uploaded file, in bytes.")
    body_patience_seconds: float = Field(
        30.0, gt=0, description="Seconds without a byte of the body after which a request is refused with 408."
    )
    body_bytes_per_second: float = Field(
        1024.0,
        gt=0,
        description="Minimum bytes per second of a body, averaged over body_patience_seconds. Slower requests get 408.",
    )
    upload_idle_seconds: float = Field(
        86_400.0, gt=0, description="Seconds without new bytes after which a resumable upload is deleted."
    )
    max_json_bytes: int = Field(
        64 * MIB, gt=0, description="Maximum size of any other request body, in bytes: jobs, predictions, imports."
    )
    max_body_memory_bytes: int = Field(
        256 * MIB,
        gt=0,
        description="Memory for request bodies in an API process, in bytes: one such budget for predictions, "
        "one for all others.",
    )
    max_predict_bytes: int = Field(
        256 * MIB,
        gt=0,
        description="Maximum size of a predict request's rows once parsed, in bytes: rows x columns x 8.",
    )
    max_connections: int = Field(
        4096,
        gt=0,
        description="Maximum open connections of an API process, limited to half of the process's file limit. "
        "The connections that have been idle longest are closed to make room.",
    )
    header_patience_seconds: float = Field(
        10.0, gt=0, description="Seconds within which the headers of a request must arrive."
    )
    free_space_bytes: int = Field(
        GIB,
        ge=0,
        description="Disk space to keep free, in bytes. Uploads and jobs that would use it get 507. 0: no reserve.",
    )
    max_event_streams: int = Field(500, ge=0, description="Maximum event streams of an API process.")
    max_webhooks: int = Field(
        100,
        ge=0,
        description="Maximum webhooks that receive the events of all jobs. Webhooks of single jobs do not count.",
    )
    webhook_allow_private: bool = Field(
        False, description="Whether to send webhooks to private addresses, such as 10.0.0.1 or localhost."
    )
    webhook_timeout_seconds: float = Field(
        10.0, gt=0, description="Seconds within which the receiver of a webhook must respond."
    )
    webhook_retry_seconds: float = Field(
        5.0, gt=0, description="Seconds until the first retry of a webhook. The interval triples with each failure."
    )
    webhook_give_up_seconds: float = Field(
        86_400.0, gt=0, description="Age in seconds at which a webhook message is no longer retried."
    )
    model_cache_bytes: int = Field(
        256 * MIB, gt=0, description="Memory for cached model weights in an API process, in bytes."
    )
    sweep_grace_seconds: float = Field(
        3600.0, ge=0, description="Age in seconds at which a file that no row refers to is deleted."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severity that is logged."
    )

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'hyperplane.db'}"

    @property
    def threads_a_worker(self) -> int:
        return max(1, (os.cpu_count() or 1) // max(1, self.workers))

    @property
    def bound_to_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    def environment(self) -> dict[str, str]:
        """Return the environment for a child process that must have the same settings."""
        own = {PREFIX + name.upper(): str(value) for name, value in self.model_dump().items()}
        return {**os.environ, **own, PREFIX + "DATA_DIR": str(self.data_dir.resolve())}


def setting_sources() -> dict[str, str]:
    """Return the source of each setting's value: the name of the variable, or `default`."""
    return {
        name: variable if (variable := PREFIX + name.upper()) in os.environ else "default"
        for name in Settings.model_fields
    }


def unknown_variables() -> list[str]:
    """List the `HYPERPLANE_*` variables that are not settings. They are nearly always misspelt."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    known |= {PREFIX + name for name in ("URL", "API_KEY", "TEST_DATABASE_URL", "SOAK_EXAMPLES")}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
