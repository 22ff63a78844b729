"""`pronk serve`: the folder, the first token, the server, until a signal comes."""

from __future__ import annotations

import gc
import json
import socket
import sqlite3
import ssl
import sys
import threading
import uuid
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from pronk.data import drifting
from pronk.estimators.atomic import InUse
from pronk.serve import errors
from pronk.serve.client import Client
from pronk.serve.http.app import App
from pronk.serve.http.exchange import PatientProtocol
from pronk.serve.journal import JournalError
from pronk.serve.service import Service, Settings
from pronk.serve.tokens import Tokens, TokensError, from_environment


class ServeError(Exception):
    """The server cannot start; the message says why."""


@dataclass(frozen=True)
class ServeOptions:
    """What the command line sets."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    key: Path | None = None
    most_bytes: int = 16_000_000
    most_model_bytes: int = 1_000_000_000
    most_connections: int = PatientProtocol.most_connections
    token_file: Path | None = None
    seconds: float = 30.0
    settings: Settings = field(default_factory=Settings)
    demo: bool = False
    as_json: bool = False


class Server(uvicorn.Server):
    """Ends with exit code 0 after a signal: everything was answered and kept."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._application = app

    def end(self) -> None:
        """Stop listening."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: Any) -> None:
        errors.note("stopping", signal=sig)
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._application.stopping = True


def open_service(options: ServeOptions) -> Service:
    """The service of a folder, whose models are not recovered yet."""
    try:
        if not options.folder.is_dir():  # it will hold rows: for its owner alone
            options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Service(options.folder, options.settings, errors.note, recover=False)
    except (InUse, OSError) as error:
        raise _one_line(error, options.folder) from None


def _one_line(error: Exception, folder: Path) -> Exception:
    """What stands in the way of a start, as one line."""
    if isinstance(error, InUse | JournalError):
        return ServeError(str(error))
    if isinstance(error, sqlite3.Error):
        return ServeError(f"{folder}: the journal cannot be used: {error}")
    if isinstance(error, OSError):
        return ServeError(f"{folder} cannot be used: {error.strerror or error}")
    return error


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that the port is known before anything is said."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ServeError(f"{host}:{port} cannot be listened on: {reason}") from None
    return found


def run(options: ServeOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    _many_files()
    errors.take_over("uvicorn.error", "asyncio")
    _check_tls(options)
    service = open_service(options)
    listening = listen(options.host, options.port)
    try:
        tokens = Tokens(options.folder, from_environment(), options.token_file)
        first = None if len(tokens) else tokens.add(("admin",), "first")
    except TokensError as error:
        raise ServeError(str(error)) from None
    app = App(service, tokens, options.most_bytes, options.most_model_bytes, options.seconds)
    limits = {"most_connections": options.most_connections}
    config = uvicorn.Config(
        app,
        http=type("Protocol", (PatientProtocol,), limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=20,
        ssl_certfile=options.certificate,
        ssl_keyfile=options.key,
    )
    server = Server(config, app)
    app.on_failure = server.end
    scheme = "https" if options.certificate else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    address = f"{scheme}://{host}:{listening.getsockname()[1]}"
    _greet(address, first, options.folder, as_json=options.as_json)
    fed = _fed(address, tokens) if options.demo else nullcontext()
    with threadpool_limits(1), _rare_collections(), fed:
        server.run(sockets=[listening])
    if app.failure is not None:
        raise _one_line(app.failure, options.folder)
    errors.note("stopped")


def _check_tls(options: ServeOptions) -> None:
    """A certificate that cannot be used is said before anything else."""
    certificate, key = options.certificate, options.key
    if (certificate is None) != (key is None):
        raise ServeError("--tls-certificate and --tls-key go together")
    if certificate is None or key is None:
        return
    for path in (certificate, key):
        if not path.is_file():
            raise ServeError(f"{path} is not there")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ServeError(f"{certificate} with {key} cannot be used: {reason}") from None


@contextmanager
def _fed(address: str, tokens: Tokens) -> Iterator[None]:
    """A generated stream for the server while it runs."""
    pass  # RELAYOUT

    token = tokens.add(("admin",), "demo")
    demo = Demo(address, token)
    demo.start()
    try:
        yield
    finally:
        demo.stopping.set()
        tokens.revoke(token.split("_")[1])


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Rows are freed when nobody holds them; looking for cycles at every 700 lists is in vain."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what is there now stays, and is not looked at again
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _greet(address: str, token: str | None, folder: Path, *, as_json: bool) -> None:
    """Where the page is, and the first token, which is told this once."""
    page = f"{address}/" if token is None else f"{address}/#token={token}"
    if as_json:
        print(json.dumps({"address": address, "page": page, "token": token}), flush=True)
        return
    print(f"page   {page}", flush=True)
    if token is None:
        print(f"token  as before (pronk serve token {folder} makes more)", flush=True)
    else:
        print(f"token  {token}", flush=True)
        more = f"pronk serve token {folder} --scope infer makes more"
        print(f"       scope admin, shown this once; {more}", flush=True)


def _many_files() -> None:
    """As many open connections as the system lets this process have."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# ----------------------------------------------------------------------------------------
# `pronk serve --demo`: a generated stream for the server, so that the page moves.
#
# Two models: one learns a drifting function at once, one says on which side of its median the next
# value lies and gets its labels later, by the id of the prediction.

ROWS = 8
#: Requests that the labels of the second model come late.
DELAY = 5


class Demo(threading.Thread):
    """Feeds a server until it is stopped; the pauses make some hundred rows a second."""

    def __init__(self, url: str, token: str, seed: int = 0, pause: float = 0.04) -> None:
        super().__init__(name="Demo", daemon=True)
        self.client = Client(url, token, retries=20)
        self.seed, self.pause = seed, pause
        self.stopping = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            self._feed()
        except Exception as error:
            if not self.stopping.is_set():
                self.failure = error

    def _feed(self) -> None:
        parameters = {"budget": 100}
        X, _ = next(iter(drifting(ROWS, seed=self.seed)))
        columns = [f"sensor {i + 1}" for i in range(X.shape[1])]
        self.client.create("waves", columns, parameters=parameters)
        self.client.create("high-or-low", columns, "classification", parameters=parameters)
        late: deque[tuple[str, list[str]]] = deque()
        for rows, labels in self._blocks():
            if self.stopping.wait(self.pause):
                return
            self.client.learn("waves", rows, labels)
            id = f"demo-{uuid.uuid4()}"
            self.client.infer("high-or-low", rows, id=id)
            late.append((id, ["high" if value > 0 else "low" for value in labels]))
            if len(late) > DELAY:
                self.client.label("high-or-low", *late.popleft())

    def _blocks(self) -> Any:
        endless = (drifting(100_000, seed=self.seed + i, block=ROWS) for i in count())
        return chain.from_iterable(endless)
