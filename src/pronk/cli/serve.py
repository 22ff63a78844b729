"""`pronk serve`: models online behind HTTP, and the tokens of who may use them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pronk.cli.errors import CommandError
from pronk.cli.options import AsJSON

if TYPE_CHECKING:
    from pronk.serve.tokens import Tokens


def serve(
    folder: Annotated[  # or the word token, and then a folder
        Path | None,
        typer.Argument(metavar="token", help="The word token: make, list or revoke tokens."),
    ] = None,
    tokens_of: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="Where everything is kept; made if it is not there."),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="0 takes a free one.")
    ] = 8765,
    tls_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain (PEM): serve HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the certificate (PEM).")
    ] = None,
    snapshot_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows a model learns between snapshots.")
    ] = 50_000,
    queue_rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows that may wait; more are told to retry.")
    ] = 100_000,
    retention_days: Annotated[
        float, typer.Option(min=0.0, metavar="N", help="Days that rows and their ids are kept.")
    ] = 30.0,
    label_days: Annotated[
        float, typer.Option(min=0.0, metavar="N", help="Days that a prediction waits for a label.")
    ] = 7.0,
    archive: Annotated[
        bool, typer.Option("--archive", help="Keep dropped rows as Parquet in FOLDER/archive.")
    ] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Feed a generated stream; without FOLDER into one that goes."),
    ] = False,
    max_body: Annotated[
        int, typer.Option(min=1000, metavar="BYTES", help="The largest body of a request.")
    ] = 16_000_000,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", help="token: what a new one may: infer, learn, admin; repeatable."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="token: whose it is.")] = "",
    revoke: Annotated[
        str | None, typer.Option(metavar="ID", help="token: take one back (its id, see --list).")
    ] = None,
    list_tokens: Annotated[bool, typer.Option("--list", help="token: list them.")] = False,
    as_json: AsJSON = False,
) -> None:
    """Keep models online behind HTTP: predictions now, labels later, nothing lost.

    `pronk serve FOLDER` starts the server; `pronk serve token FOLDER --scope infer` makes a token.
    """
    try:
        from pronk.serve import run
        from pronk.serve.service import Settings
    except ImportError as error:
        raise CommandError(
            f"serve needs further packages ({error.name} is missing): "
            'pip install ".[serve]" in the clone'
        ) from None
    if str(folder) == "token" and tokens_of is not None:
        from pronk.serve.tokens import Tokens, TokensError

        try:
            _tokens(Tokens(_existing(tokens_of)), scope, name, revoke, list_tokens, as_json)
        except TokensError as error:
            raise CommandError(str(error), 1) from None
        return
    if tokens_of is not None:
        raise CommandError(f"one folder, not two: {folder} and {tokens_of}")
    if scope or name or revoke or list_tokens:
        raise CommandError(
            "--scope, --name, --list and --revoke belong to: pronk serve token FOLDER"
        )
    with ExitStack() as stack:
        if folder is None:
            if not demo:
                raise CommandError("which folder? pronk serve FOLDER, or pronk serve --demo")
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="pronk-demo-")))
        _serve(
            run.ServeOptions(
                folder=folder,
                host=host,
                port=port,
                certificate=tls_certificate,
                key=tls_key,
                most_bytes=max_body,
                demo=demo,
                as_json=as_json,
                settings=Settings(
                    queue_rows=queue_rows,
                    snapshot_rows=snapshot_rows,
                    retention_days=retention_days,
                    label_days=label_days,
                    archive=archive,
                ),
            )
        )


def _serve(options: Any) -> None:
    from pronk.serve import run

    try:
        run.run(options)
    except run.ServeError as error:
        raise CommandError(str(error), 1) from None


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        raise CommandError(f"{folder} is not there; pronk serve {folder} makes it")
    return folder


def _tokens(
    tokens: Tokens, scope: list[str] | None, name: str, revoke: str | None, listing: bool,
    as_json: bool,
) -> None:  # fmt: skip
    found: dict[str, Any]
    if listing:
        held = tokens.list()
        found = {"tokens": [{"id": t.id, "scopes": list(t.scopes), "name": t.name} for t in held]}
        text = "\n".join(f"{t.id}  {','.join(t.scopes):<20} {t.name}" for t in held)
    elif revoke is not None:
        if not tokens.revoke(revoke):
            raise CommandError(f"--revoke: there is no token {revoke!r}; --list shows them")
        found, text = {"revoked": revoke}, f"revoked {revoke}"
    else:
        try:
            text = tokens.add(tuple(dict.fromkeys(scope or ())), name)
        except ValueError as error:
            raise CommandError(f"--scope: {error}") from None
        found = {"token": text}
    if as_json:
        from pronk.cli import screen  # heavy

        screen.print_json(found)
    elif text:
        print(text)
