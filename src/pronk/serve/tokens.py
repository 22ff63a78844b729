"""Access tokens with scopes, stored as hashes and compared in constant time.

A token is `pronk_ID_SECRET`; the file `tokens.json` has the hash of the secret (it has 256 random
bits, so a plain SHA-256 is enough), the scopes and a name. The server reads the file again when it
changes.

Tokens may also come from an environment variable (one token) or a file with one token per line,
such as the secrets of a container. These tokens can be any text without spaces.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pronk.estimators.atomic import write_atomically

NAME = "tokens.json"
SCOPES = ("infer", "learn", "admin")
#: The environment variable that holds a token with the scope admin.
VARIABLE = "PRONK_SERVE_TOKEN"
#: Least characters of a token that the user chose: it must not be easy to guess.
SHORTEST = 16
_NOBODY = hashlib.sha256(b"").hexdigest()


class TokensError(Exception):
    """Raised if tokens cannot be read or written."""


@dataclass(frozen=True)
class Token:
    """Hold the hash of a token's secret, its scopes and its name."""

    id: str
    digest: str
    scopes: tuple[str, ...]
    name: str = ""
    created: float = 0.0

    def may(self, scope: str) -> bool:
        """Return whether the token has a scope; ``admin`` includes all, "" is in every token."""
        return scope in self.scopes or "admin" in self.scopes or not scope


class _Watched:
    """Parse a file, again whenever it has changed."""

    def __init__(self, path: Path, parse: Callable[[str], list[Token]]) -> None:
        self.path, self._parse = path, parse
        self._stamp: tuple[int, int] | None = None
        self._tokens: list[Token] = []

    def tokens(self) -> list[Token]:
        status = self.path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._tokens, self._stamp = self._parse(self.path.read_text()), stamp
        return self._tokens


class Tokens:
    """Manage the tokens of a folder, and those of the environment or a file of secrets."""

    def __init__(self, folder: Path, given: str = "", file: Path | None = None) -> None:
        self.path = folder / NAME
        self._own_file = _Watched(self.path, _tokens)
        self._other = None if file is None else _Watched(file, partial(given_tokens, where=file))
        self._given = given_tokens(given, f"${VARIABLE}")
        self._of_file: list[Token] = []
        self._checked = 0.0
        self._tokens: dict[str, Token] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if they changed."""
        if self._other is not None:
            try:
                self._of_file = self._other.tokens()
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise TokensError(f"{self._other.path} cannot be read: {reason}") from None
            if not self._of_file:
                raise TokensError(f"{self._other.path} has no token")
        try:
            self._tokens = {token.id: token for token in self._own_file.tokens()}
        except FileNotFoundError:
            self._tokens = {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise TokensError(
                f"{self.path} cannot be read: {error}; restore it from a backup, or remove it and "
                "create new tokens"
            ) from None

    def __len__(self) -> int:
        return len(self._tokens) + len(self._given) + len(self._of_file)

    def list(self) -> list[Token]:
        return list(self._tokens.values())

    def add(self, scopes: tuple[str, ...], name: str = "") -> str:
        """Create a token and return it; it cannot be shown again."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise ValueError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown) or 'none'}")
        self.refresh()
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        token = Token(id, _digest(secret), scopes, name, time.time())
        self._save({**self._tokens, id: token})
        return f"pronk_{id}_{secret}"

    def revoke(self, id: str) -> bool:
        """Remove a token; return whether it existed."""
        self.refresh()
        left = {key: token for key, token in self._tokens.items() if key != id}
        if len(left) == len(self._tokens):
            return False
        self._save(left)
        return True

    def check(self, text: str) -> Token | None:
        """Return the token, or None if it is unknown; the time depends on the length only."""
        now = time.monotonic()
        if now - self._checked > 1.0:
            self._checked = now
            with suppress(TokensError):  # damaged while the server runs: earlier tokens stay valid
                self.refresh()
        prefix, _, rest = text.partition("_")
        id, _, secret = rest.partition("_")
        token = self._tokens.get(id)
        expected = _NOBODY if token is None else token.digest
        good = hmac.compare_digest(_digest(secret), expected) and prefix == "pronk"
        found = token if good else None
        digest = _digest(text)
        for each in (*self._given, *self._of_file):
            if hmac.compare_digest(digest, each.digest):
                found = each
        return found

    def _save(self, tokens: dict[str, Token]) -> None:
        text = json.dumps([asdict(token) for token in tokens.values()], indent=1)
        try:
            if not self.path.parent.is_dir():  # before the first start: readable by its owner only
                self.path.parent.mkdir(mode=0o700, parents=True)
            write_atomically(self.path, text.encode(), permissions=0o600)
        except OSError as error:
            raise TokensError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self.refresh()


def given_tokens(text: str, where: str | Path) -> list[Token]:
    """Parse one token per line, followed by its scopes (default admin); # starts a comment."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        scopes = tuple(words[1].split(",")) if len(words) > 1 else ("admin",)
        if len(words) > 2 or not set(scopes) <= set(SCOPES):
            raise TokensError(
                f"{where}, line {number}: expected a token and its scopes ({', '.join(SCOPES)}, "
                "with commas and no spaces)"
            )
        if len(words[0]) < SHORTEST:
            raise TokensError(f"{where}, line {number}: a token has at least {SHORTEST} characters")
        digest = _digest(words[0])
        found.append(Token(f"given-{digest[:8]}", digest, scopes, str(where)))
    return found


def from_environment() -> str:
    """Return the token in the environment variable, or ""."""
    return os.environ.get(VARIABLE, "")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _tokens(text: str) -> list[Token]:
    """Return the tokens of the folder's file; raise if a part has a wrong type."""
    found = [Token(**{**given, "scopes": tuple(given["scopes"])}) for given in json.loads(text)]
    for token in found:
        if not all(isinstance(one, str) and one.isascii() for one in (token.id, token.digest)):
            raise ValueError("id and digest must be text")
        if not all(isinstance(one, str) for one in (token.name, *token.scopes)):
            raise ValueError("name and scopes must be text")
    return found
