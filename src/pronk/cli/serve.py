"""`pronk serve`: models behind HTTP, and their access tokens.

Every option can also come from the environment (`PRONK_SERVE_PORT`) or a TOML file (`--config`):
the command line has precedence, then the environment, then the file.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

from pronk._hints import did_you_mean
from pronk.cli.options import AsJSON, PanelCommand, option, with_options
from pronk.cli.screen import CommandError, blaming, print_json

PREFIX = "PRONK_SERVE"
SERVE_SETTINGS = {"auto_envvar_prefix": PREFIX}
#: Options that --config cannot set.
_NOT_IN_FILES = {"config", "help"}


class ServeCommand(PanelCommand):
    """The command `serve`, with the subcommand `token` in place of a folder."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **more: Any) -> Any:
        if args[:1] == ["token"]:
            command = get_command(_token_app)
            return command.make_context(f"{info_name} token", args[1:], parent, **more)
        return super().make_context(info_name, args, parent, **more)


def _configured(context: typer.Context, path: Path | None) -> Path | None:
    """Read options from a TOML file as the defaults of the command."""
    if path is None:
        return None
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"--config: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise CommandError(f"--config: {path} is not TOML: {error}") from None
    known = {str(parameter.name) for parameter in context.command.params} - _NOT_IN_FILES
    found = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in known:
            hint = did_you_mean(key.replace("_", "-"), {n.replace("_", "-") for n in known})
            raise CommandError(f"--config: {path}: there is no option {key!r}{hint}")
        if isinstance(value, dict | list):
            raise CommandError(f"--config: {path}: {key} must be one value")
        found[name] = value
    context.default_map = found
    return path


#: Panels of the help.
ADDRESS, DATA, LIMITS, ALERTS = "Address and access", "Data", "Limits", "Alerts"

#: Where and how the server listens, by the field of `pronk.serve.run.ServeOptions`.
SERVER = {
    "host": option(ADDRESS, str, "Address to listen on.", "ADDRESS", default="127.0.0.1"),
    "port": option(
        ADDRESS, int, "Port to listen on; 0 chooses a free port.", default=8765, min=0, max=65535
    ),
    "tls_certificate": option(ADDRESS, Path, "Serve HTTPS with this certificate chain (PEM)."),
    "tls_key": option(ADDRESS, Path, "Private key of the certificate (PEM)."),
    "token_file": option(
        ADDRESS,
        Path,
        "Further access tokens, one per line with its scopes; a single token can be given as "
        "$PRONK_SERVE_TOKEN.",
    ),
    "max_body": option(LIMITS, int, "Largest request body.", "BYTES", default=16_000_000, min=1000),
    "max_model": option(
        LIMITS, int, "Largest uploaded model file.", "BYTES", default=1_000_000_000, min=1000
    ),
    "max_connections": option(
        LIMITS,
        int,
        "Most open connections; idle ones are closed for new ones.",
        default=2_000,
        min=1,
    ),
}
#: What the service keeps, by the field of `pronk.serve.service.Settings`.
SETTINGS = {
    "snapshot_rows": option(
        DATA, int, "Rows that a model learns between two snapshots.", default=50_000, min=1
    ),
    "retention_days": option(
        DATA, float, "Days that rows and their ids are kept.", default=30.0, min=0.0
    ),
    "label_days": option(
        DATA, float, "Days that a prediction waits for its label.", default=7.0, min=0.0
    ),
    "archive": option(
        DATA,
        bool,
        "Write rows to Parquet files in FOLDER/archive before they are deleted.",
        default=False,
    ),
    "accept_missing": option(
        DATA, bool, "Start even if acknowledged labels are missing from the journal.", default=False
    ),
    "alerts": option(
        ALERTS,
        str,
        "Post alerts as JSON to this address, signed with the secret in "
        "$PRONK_SERVE_ALERT_SECRET if there is one.",
        "URL",
    ),
    "alert_hours": option(
        ALERTS, float, "Hours without a label that are an alert.", default=24.0, min=0.0
    ),
    "queue_rows": option(
        LIMITS,
        int,
        "Rows that may wait to be learned; further requests must retry.",
        default=100_000,
        min=1,
    ),
}


@with_options(server=SERVER, settings=SETTINGS)
def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(
            envvar=f"{PREFIX}_FOLDER",
            metavar="FOLDER",
            help="Folder of models, journal and tokens; created if it does not exist.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            is_eager=True,
            callback=_configured,
            help="Read options from a TOML file, for example: port = 8765.",
        ),
    ] = None,
    *,
    server: dict[str, Any],
    settings: dict[str, Any],
    json: Annotated[
        bool, typer.Option("--json", help="Print address and token as one JSON object.")
    ] = False,
) -> None:
    """Serve models over HTTP: they predict, and learn when labels arrive; no label is lost.

    `pronk serve FOLDER` starts the server. `pronk serve token FOLDER --scope infer` creates an
    access token, also before the first start (see `pronk serve token --help`). Every option can
    also be set in the environment (PRONK_SERVE_PORT for --port) or in a file (--config).
    """
    try:
        from pronk.serve import run
        from pronk.serve.alerts import check_address
        from pronk.serve.service import Settings
    except ImportError as error:
        raise CommandError(
            f"serve needs further packages ({error.name} is missing): "
            'pip install ".[serve]" in the clone'
        ) from None
    if folder is None:
        raise CommandError("FOLDER is missing: pronk serve FOLDER")
    if settings["alerts"] is not None:
        with blaming("--alerts"):
            check_address(settings["alerts"])
        settings["alert_secret"] = os.environ.get(f"{PREFIX}_ALERT_SECRET") or None
    try:
        run.run(run.ServeOptions(folder, settings=Settings(**settings), as_json=json, **server))
    except run.ServeError as error:
        raise CommandError(str(error), 1) from None


_token_app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@_token_app.command()
def token(
    folder: Annotated[
        Path | None,
        typer.Argument(
            envvar=f"{PREFIX}_FOLDER",
            metavar="FOLDER",
            help="Folder of the server; created if it does not exist.",
        ),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", help="Scope of the new token: infer, learn or admin; repeatable."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Name of the token's owner.")] = "",
    revoke: Annotated[
        str | None, typer.Option(metavar="ID", help="Revoke the token with this id (see --list).")
    ] = None,
    list_tokens: Annotated[bool, typer.Option("--list", help="List the tokens.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Create, list or revoke access tokens of `pronk serve`, also before its first start."""
    if folder is None:
        raise CommandError("FOLDER is missing: pronk serve token FOLDER --scope infer")
    from pronk.serve.tokens import Tokens, TokensError

    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is not a folder")
    if (list_tokens or revoke is not None) and not folder.is_dir():
        raise CommandError(f"{folder} does not exist, so it has no tokens")
    try:
        found, text = _tokens(Tokens(folder), scope, name, revoke, list_tokens)
    except TokensError as error:
        raise CommandError(str(error), 1) from None
    except OSError as error:
        raise CommandError(f"{folder} cannot be used: {error.strerror or error}", 1) from None
    if as_json:
        print_json(found)
    elif text:
        print(text)


def _tokens(
    tokens: Any, scope: list[str] | None, name: str, revoke: str | None, listing: bool
) -> tuple[dict[str, Any], str]:
    """Do what the options say; return the result as a dict and as text."""
    if listing:
        held = tokens.list()
        found = [{"id": t.id, "scopes": list(t.scopes), "name": t.name} for t in held]
        lines = [f"{t.id}  {','.join(t.scopes):<20} {t.name}" for t in held]
        return {"tokens": found}, "\n".join(lines)
    if revoke is not None:
        if not tokens.revoke(revoke):
            raise CommandError(f"--revoke: no token has the id {revoke!r}; --list shows them")
        return {"revoked": revoke}, f"revoked {revoke}"
    with blaming("--scope"):
        text = tokens.add(tuple(dict.fromkeys(scope or ())), name)
    return {"token": text}, text
