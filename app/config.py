"""Settings: one typed table, read from `HYPERPLANE_*` variables; command-line flags become such variables."""

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
SHARE_FOR_TRAINING = 0.7  # of the memory; the rest is for the API, the readers of files and their cache


class Settings(BaseSettings):
    """Everything that a deployment can choose. Field names are the variables' names without the prefix."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    data_dir: Path = Field(Path("data"), description="folder for blobs and, by default, the database")
    database_url: str = Field("", description="SQLAlchemy URL; empty: SQLite inside the data folder")
    host: str = Field("127.0.0.1", description="address to bind; other than loopback needs an API key")
    port: int = Field(8000, ge=0, le=65535)
    workers: int = Field(
        default_factory=lambda: max(1, os.cpu_count() or 1),
        ge=0,
        le=256,
        description="training processes beside the API; 0: this machine only serves",
    )
    memory_budget_bytes: int = Field(
        default_factory=lambda: int(SHARE_FOR_TRAINING * memory_bytes()),
        gt=0,
        description="what the training processes of a machine may need together; a job that needs more is refused",
    )
    processes: int = Field(1, ge=1, le=64, description="HTTP processes that share the port")
    lease_seconds: float = Field(30.0, gt=0, description="a job whose worker is silent this long is retried")
    heartbeat_seconds: float = Field(5.0, gt=0)
    poll_seconds: float = Field(0.2, gt=0, description="how often an idle worker looks for a job")
    checkpoint_seconds: float = Field(30.0, gt=0, description="how much of a training a dead worker may cost at most")
    storage_patience_seconds: float = Field(
        600.0, ge=0, description="how long a job waits for a disk or a database that fails"
    )
    drain_seconds: float = Field(8.0, gt=0, description="how long a stop waits for running work")
    max_upload_bytes: int = Field(16 * GIB, gt=0)
    body_patience_seconds: float = Field(30.0, gt=0, description="a body that pauses this long is refused")
    body_bytes_per_second: float = Field(1024.0, gt=0, description="a body that is slower for as long is refused")
    upload_idle_seconds: float = Field(86_400.0, gt=0, description="a resumable upload that nobody goes on with ends")
    max_json_bytes: int = Field(64 * MIB, gt=0)
    max_body_memory_bytes: int = Field(
        256 * MIB, gt=0, description="bodies in memory at once, of predictions and of all other requests each"
    )
    max_predict_bytes: int = Field(
        256 * MIB,
        gt=0,
        description="what the rows of one predict request may take as numbers (rows x columns x 8); larger: 413",
    )
    max_connections: int = Field(
        4096, gt=0, description="of one API process, at most half of its open files; idle ones make room for new ones"
    )
    header_patience_seconds: float = Field(10.0, gt=0, description="how long the headers of a request may take")
    free_space_bytes: int = Field(
        GIB, ge=0, description="disk space that uploads and new jobs leave free; beyond it they are refused with 507"
    )
    max_event_streams: int = Field(500, ge=0, description="clients of one API process that may follow events at once")
    max_webhooks: int = Field(100, ge=0, description="addresses that may be told of all jobs")
    webhook_allow_private: bool = Field(False, description="also to addresses that are not of the public internet")
    webhook_timeout_seconds: float = Field(10.0, gt=0, description="how long a receiver may take to answer")
    webhook_retry_seconds: float = Field(5.0, gt=0, description="pause after a first failure; later ones are longer")
    webhook_give_up_seconds: float = Field(86_400.0, gt=0, description="age at which a message is not tried again")
    model_cache_bytes: int = Field(256 * MIB, gt=0, description="weights kept in memory for predict")
    sweep_grace_seconds: float = Field(3600.0, ge=0, description="age at which an unowned file is deleted")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

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
        """This process's environment with these settings in it, for a child that must see the same ones."""
        own = {PREFIX + name.upper(): str(value) for name, value in self.model_dump().items()}
        return {**os.environ, **own, PREFIX + "DATA_DIR": str(self.data_dir.resolve())}


def setting_sources() -> dict[str, str]:
    """Where each setting's value comes from: the variable's name, or `default`."""
    return {
        name: variable if (variable := PREFIX + name.upper()) in os.environ else "default"
        for name in Settings.model_fields
    }


def unknown_variables() -> list[str]:
    """`HYPERPLANE_*` variables that no part of the project reads: nearly always a typing mistake."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    known |= {PREFIX + name for name in ("URL", "API_KEY", "TEST_DATABASE_URL", "SOAK_EXAMPLES")}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
