"""The command `hyperplane`. Each command imports its modules itself, so that all commands start fast."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app import __version__
from app.admin.client_verbs import add_verbs
from app.config import PREFIX, Settings, setting_sources, unknown_variables

if TYPE_CHECKING:
    from app.db import Database


class _Commands(TyperGroup):
    """The group of all commands. It prints one line, without a traceback, if the database cannot be reached."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.Exit:
            raise
        except Exception as error:
            from app.db.outages import unreachable
            from app.errors import DatabaseUnavailable

            if not isinstance(error, DatabaseUnavailable):
                raise
            typer.echo(unreachable(Settings().resolved_database_url, error), err=True)
            raise typer.Exit(1) from error


main = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Linear support vector machines as a service. Settings are HYPERPLANE_* variables; `config` lists them.",
)
keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")
main.add_typer(keys, name="keys")

DataDir = Annotated[Path | None, typer.Option(help="Folder for files and, by default, the SQLite database.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hyperplane {__version__}")
        raise typer.Exit


@main.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@main.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to bind.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port to bind.")] = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(help="Number of training processes. 0: API only.")] = None,
    processes: Annotated[int | None, typer.Option(help="Number of API processes that share the port.")] = None,
) -> None:
    """Migrate the database, then run the API and its workers until Ctrl-C."""
    from app.runtime.launcher import launch

    flags = {"host": host, "port": port, "data_dir": data_dir, "workers": workers, "processes": processes}
    raise typer.Exit(launch(_settings(**flags)))


@main.command()
def worker(
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(help="Number of training processes.")] = None,
) -> None:
    """Run only workers. Several machines can share one database and data folder."""
    from app.runtime.launcher import run_worker

    run_worker(_settings(data_dir=data_dir, workers=workers))


@main.command()
def migrate(data_dir: DataDir = None) -> None:
    """Migrate the database to the schema of this version."""
    database = _database(data_dir)
    typer.echo(f"{database.url.render_as_string(hide_password=True)} has the newest schema")


@main.command("accept-store")
def accept_store(data_dir: DataDir = None) -> None:
    """Accept another data folder than the one that the database knows, then verify it.

    Use it after the folder was restored or replaced. Missing files stay missing; the verification lists them.
    """
    from app.storage.identity import StoreIdentity

    database = _database(data_dir)
    folder = _settings(data_dir=data_dir).data_dir
    typer.echo(f"{folder} is now the store of the database (id {StoreIdentity(database, folder).accept()})")
    database.close()
    verify(data_dir)


@main.command()
def demo(
    url: Annotated[str | None, typer.Option(envvar="HYPERPLANE_URL", help="URL of a running server.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar="HYPERPLANE_API_KEY", help="API key for it.")] = None,
) -> None:
    """Upload a bundled CSV, train a model, show its certificate and predict. Starts a server if none is running."""
    from app.admin.demo import run_demo

    raise typer.Exit(run_demo(url, api_key, _settings()))


@main.command()
def config(data_dir: DataDir = None) -> None:
    """Print every setting: its value, where the value comes from, and its meaning."""
    from sqlalchemy.engine import make_url

    settings = _settings(data_dir=data_dir)
    for name, source in setting_sources().items():
        value = getattr(settings, name)
        if name == "database_url":
            value = make_url(settings.resolved_database_url).render_as_string(hide_password=True)
        typer.echo(f"{PREFIX}{name.upper():24} {value!s:40} ({source})")
        typer.echo(f"    {Settings.model_fields[name].description}")
    for name in unknown_variables():
        typer.echo(f"warning: {name} is set, but there is no such setting; check its spelling", err=True)


@main.command()
def backup(
    target: Annotated[Path, typer.Argument(help="Folder to write: empty or not existing.")], data_dir: DataDir = None
) -> None:
    """Write a consistent copy of all rows and files to a folder. The service can keep running.

    Missing or damaged files are left out and listed, and the exit code is 1; everything else is in the backup.
    """
    from app.admin.backup import BackupError, back_up

    try:
        made = back_up(_settings(data_dir=data_dir), target)
    except BackupError as error:
        typer.echo(f"hyperplane: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"{target}: {len(made.blobs)} files of {sum(made.blobs.values()):,} bytes, and all rows")
    for name, fault in made.lacking.items():
        typer.echo(f"left out: {name} {fault}", err=True)
    raise typer.Exit(1 if made.lacking else 0)


@main.command()
def restore(
    source: Annotated[Path, typer.Argument(help="Folder that `backup` wrote.")], data_dir: DataDir = None
) -> None:
    """Restore a backup into an empty database and data folder, then verify them.

    A backup of SQLite can be restored into PostgreSQL, and the other way round.
    """
    from app.admin.backup import BackupError, fill_from

    try:
        fill_from(_settings(data_dir=data_dir), source)
    except BackupError as error:
        typer.echo(f"hyperplane: {error}", err=True)
        raise typer.Exit(1) from error
    verify(data_dir)


@main.command()
def verify(
    data_dir: DataDir = None,
    backup: Annotated[
        Path | None, typer.Option(help="Check this backup instead. With --repair: copy files from it.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="First replace missing or damaged files.")] = False,
) -> None:
    """Check the hash of every stored file, and every row against its files. Exit code 1 if anything is wrong.

    With --repair, damaged files are replaced where a good copy exists: in the backup, among the files of uploads, or by
    reading the dataset's original file again.
    """
    if backup is not None and not repair:
        _verify_backup(backup)
    from app.admin.integrity import verify_storage

    settings = _settings(data_dir=data_dir)
    if repair:
        from app.admin.repair import repair_storage

        for line in repair_storage(settings, backup):
            typer.echo(line)
    report = verify_storage(settings)
    for line in report.lines():
        typer.echo(line)
    raise typer.Exit(0 if report.sound else 1)


@keys.command("create")
def create_key(
    admin: Annotated[bool, typer.Option("--admin", help="Allow everything.")] = False,
    scope: Annotated[
        list[str] | None, typer.Option(help="Allow `read`, `write` or `predict`. Repeat it for several scopes.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the key's user, for the list of keys.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Create an API key and print it. It cannot be shown again."""
    from typing import cast

    from app.keys import service

    scopes = ["admin"] if admin else (scope or [])
    if not scopes or not {"admin", "read", "write", "predict"}.issuperset(scopes):
        typer.echo("Give --admin, or --scope with read, write or predict (repeat it for several scopes).", err=True)
        raise typer.Exit(2)
    with _database(data_dir).write() as session:
        typer.echo(service.create(session, name, cast("list[service.Scope]", scopes)))


@keys.command("list")
def list_keys(data_dir: DataDir = None) -> None:
    """List API keys. Secrets are not stored, so they cannot be shown."""
    from app.keys import service

    with _migrated_database(data_dir).read() as session:
        for key in service.list_all(session):
            state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else "active"
            typer.echo(f"{key.id}  {state:18}  {','.join(key.scopes):20}  {key.name or ''}")


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="id of the key: key_…, the part before the dot")],
    data_dir: DataDir = None,
) -> None:
    """Revoke an API key. A running server refuses it within two seconds."""
    from app.errors import NotFound
    from app.keys import service

    try:
        with _migrated_database(data_dir).write() as session:
            service.revoke(session, key_id)
    except NotFound as error:
        typer.echo(error.detail, err=True)
        raise typer.Exit(1) from error


def _verify_backup(folder: Path) -> None:
    from app.admin.backup import BackupError, check_backup

    try:
        manifest, faults = check_backup(folder)
        faults += [f"left out when the backup was made: {name} {fault}" for name, fault in manifest.lacking.items()]
    except BackupError as error:
        faults = [str(error)]
    for fault in faults or ["the backup is complete and undamaged"]:
        typer.echo(fault)
    raise typer.Exit(1 if faults else 0)


def _settings(**flags: object) -> Settings:
    """Read the settings. Flags are set as environment variables first, so that child processes inherit them."""
    for name, value in flags.items():
        if value is not None:
            os.environ[PREFIX + name.upper()] = str(value)
    from pydantic import ValidationError

    try:
        settings = Settings()
    except ValidationError as error:
        for item in error.errors():
            typer.echo(f"{PREFIX}{str(item['loc'][0]).upper()}: {item['msg']}", err=True)
        raise typer.Exit(2) from None
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return settings


def _database(data_dir: Path | None) -> "Database":
    """Open the database and migrate it to the newest schema."""
    from app.db import Database
    from app.db.migrate import UnknownRevision, upgrade

    database = Database(_settings(data_dir=data_dir).resolved_database_url)
    try:
        upgrade(database)
    except UnknownRevision as error:
        typer.echo(f"hyperplane: {error}", err=True)
        raise typer.Exit(1) from error
    return database


def _migrated_database(data_dir: Path | None) -> "Database":
    """Open the database, which must have the schema of this version: commands that only read do not migrate."""
    from app.db import Database
    from app.db.migrate import OldSchema, UnknownRevision, check_current

    database = Database(_settings(data_dir=data_dir).resolved_database_url)
    try:
        check_current(database)
    except (OldSchema, UnknownRevision) as error:
        typer.echo(f"hyperplane: {error}", err=True)
        raise typer.Exit(1) from error
    return database


add_verbs(main, _settings)

if __name__ == "__main__":
    main()
