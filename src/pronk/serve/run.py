"""Start and stop the server of `pronk serve`: folder, first token, log."""

from __future__ import annotations

import gc
import json
import logging
import socket
import sqlite3
import ssl
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from pronk.estimators.atomic import InUse
from pronk.serve.http.app import App
from pronk.serve.http.exchange import LimitedProtocol
from pronk.serve.journal import JournalError
from pronk.serve.service import Service, Settings
from pronk.serve.tokens import Tokens, TokensError, from_environment


class ServeError(Exception):
    """Raised if the server cannot start."""


@dataclass(frozen=True)
class ServeOptions:
    """Hold the options of the command line."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    max_body: int = 16_000_000
    max_model: int = 1_000_000_000
    max_connections: int = LimitedProtocol.most_connections
    token_file: Path | None = None
    seconds: float = 30.0
    settings: Settings = field(default_factory=Settings)
    as_json: bool = False


class Server(uvicorn.Server):
    """Stop on a signal with exit code 0, after all requests were answered and saved."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._application = app

    def end(self) -> None:
        """Stop listening."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: Any) -> None:
        log("stopping", signal=sig)
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._application.stopping = True


def open_service(options: ServeOptions) -> Service:
    """Return the service of a folder; its models are not recovered yet."""
    try:
        if not options.folder.is_dir():  # readable by its owner only: it will hold rows
            options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Service(options.folder, options.settings, log, recover=False)
    except (InUse, OSError) as error:
        raise _one_line(error, options.folder) from None


def _one_line(error: Exception, folder: Path) -> Exception:
    """Turn an error at the start into a `ServeError` with a one-line message, if it is known."""
    if isinstance(error, InUse | JournalError):
        return ServeError(str(error))
    if isinstance(error, sqlite3.Error):
        return ServeError(f"{folder}: the journal cannot be used: {error}")
    if isinstance(error, OSError):
        return ServeError(f"{folder} cannot be used: {error.strerror or error}")
    return error


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that the port is known before the address is printed."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ServeError(f"cannot listen on {host}:{port}: {reason}") from None
    return found


def run(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    _check_tls(options)
    service = open_service(options)
    listening = listen(options.host, options.port)
    _raise_file_limit()
    log_warnings_of("uvicorn.error", "asyncio")
    try:
        tokens = Tokens(options.folder, from_environment(), options.token_file)
        first = None if len(tokens) else tokens.add(("admin",), "first")
    except TokensError as error:
        raise ServeError(str(error)) from None
    app = App(service, tokens, options.max_body, options.max_model, options.seconds)
    limits = {"most_connections": options.max_connections}
    config = uvicorn.Config(
        app,
        http=type("Protocol", (LimitedProtocol,), limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=20,
        ssl_certfile=options.tls_certificate,
        ssl_keyfile=options.tls_key,
    )
    server = Server(config, app)
    app.on_failure = server.end
    scheme = "https" if options.tls_certificate else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{scheme}://{host}:{listening.getsockname()[1]}"
    _greet(address, first, options.folder, as_json=options.as_json)
    # Rows are freed by reference counting, as they contain no cycles: garbage is collected every
    # 50,000 new objects instead of 700, and objects that exist now never.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    with threadpool_limits(1):
        server.run(sockets=[listening])
    if app.failure is not None:
        raise _one_line(app.failure, options.folder)
    log("stopped")


def _check_tls(options: ServeOptions) -> None:
    """Raise if the TLS certificate or its key cannot be used."""
    certificate, key = options.tls_certificate, options.tls_key
    if (certificate is None) != (key is None):
        raise ServeError("--tls-certificate and --tls-key must be given together")
    if certificate is None or key is None:
        return
    for path in (certificate, key):
        if not path.is_file():
            raise ServeError(f"{path} does not exist")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ServeError(f"{certificate} with {key} cannot be used: {reason}") from None


def _greet(address: str, token: str | None, folder: Path, *, as_json: bool) -> None:
    """Print the address of the live page and, once, the first token."""
    page = f"{address}/" if token is None else f"{address}/#token={token}"
    if as_json:
        print(json.dumps({"address": address, "page": page, "token": token}), flush=True)
        return
    print(f"page   {page}", flush=True)
    if token is None:
        print(f"token  unchanged; create another: pronk serve token {folder}", flush=True)
    else:
        print(f"token  {token}", flush=True)
        more = f"create another: pronk serve token {folder} --scope infer"
        print(f"       scope admin, shown only now; {more}", flush=True)


def _raise_file_limit() -> None:
    """Raise the limit of open files, hence of connections, to the system's maximum."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# -- log -------------------------------------------------------------------------------------------

_log_lock = threading.Lock()


def log(event: str, **fields: Any) -> None:
    """Write an event to stderr as one line of JSON.

    Fields never contain features, labels or tokens.
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
    line = json.dumps({"time": moment, "event": event, **fields}, default=str)
    with _log_lock, suppress(OSError, ValueError):  # stderr may be closed
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class _LogHandler(logging.Handler):
    """Write records of other packages to the log, without the data of requests."""

    def emit(self, record: logging.LogRecord) -> None:
        raised = record.exc_info[0] if record.exc_info else None
        fields = {} if raised is None else {"reason": raised.__name__}
        log("server", logger=record.name, text=record.getMessage()[:300], **fields)


def log_warnings_of(*names: str) -> None:
    """Send the warnings of some loggers to the log."""
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers = [_LogHandler(logging.WARNING)]
        logger.propagate = False
