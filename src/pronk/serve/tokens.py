"""Who may: tokens with scopes, stored as hashes, compared in constant time.

A token is `pronk_ID_SECRET`; the file `tokens.json` has the hash of the secret (256 bits of chance:
a plain SHA-256 is enough), the scopes and a name. The server reads the file again when it changes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pronk.estimators.atomic import write_whole

NAME = "tokens.json"
SCOPES = ("infer", "learn", "admin")
_NOBODY = hashlib.sha256(b"").hexdigest()


class TokensError(Exception):
    """The file of tokens cannot be read or written; the message says why."""


@dataclass(frozen=True)
class Token:
    """What is known of a token; the secret is not."""

    id: str
    digest: str
    scopes: tuple[str, ...]
    name: str = ""
    created: float = 0.0

    def may(self, scope: str) -> bool:
        """Whether the token has a scope; ``admin`` has all, no scope needs any token."""
        return scope in self.scopes or "admin" in self.scopes or not scope


class Tokens:
    """The tokens of a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._stamp: tuple[int, int] | None = None
        self._checked = 0.0
        self._tokens: dict[str, Token] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if it changed."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._tokens, self._stamp = {}, None
            return
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return
        try:
            found = json.loads(self.path.read_text())
            self._tokens = {given["id"]: _token(given) for given in found}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise TokensError(
                f"{self.path} cannot be read: {error}; put a backup in its place, or remove it and "
                "make new tokens"
            ) from None
        self._stamp = stamp

    def __len__(self) -> int:
        return len(self._tokens)

    def list(self) -> list[Token]:
        return list(self._tokens.values())

    def add(self, scopes: tuple[str, ...], name: str = "") -> str:
        """A new token, which is shown once."""
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise ValueError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown) or 'none'}")
        self.refresh()
        id, secret = secrets.token_hex(4), secrets.token_urlsafe(32)
        token = Token(id, _digest(secret), scopes, name, time.time())
        self._save({**self._tokens, id: token})
        return f"pronk_{id}_{secret}"

    def revoke(self, id: str) -> bool:
        """Take a token back; whether it was there."""
        self.refresh()
        left = {key: token for key, token in self._tokens.items() if key != id}
        if len(left) == len(self._tokens):
            return False
        self._save(left)
        return True

    def check(self, text: str) -> Token | None:
        """The token, if it is one; as long for any text of the same length."""
        now = time.monotonic()
        if now - self._checked > 1.0:
            self._checked = now
            with suppress(TokensError):  # damaged while it runs: those of before stay good
                self.refresh()
        prefix, _, rest = text.partition("_")
        id, _, secret = rest.partition("_")
        token = self._tokens.get(id)
        expected = _NOBODY if token is None else token.digest
        good = hmac.compare_digest(_digest(secret), expected) and prefix == "pronk"
        return token if good and token is not None else None

    def _save(self, tokens: dict[str, Token]) -> None:
        text = json.dumps([asdict(token) for token in tokens.values()], indent=1)
        try:
            write_whole(self.path, text.encode(), rights=0o600)
        except OSError as error:
            raise TokensError(f"{self.path} cannot be written: {error.strerror or error}") from None
        self.refresh()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(given: dict[str, Any]) -> Token:
    """A token of the file, each part of its kind."""
    token = Token(**{**given, "scopes": tuple(given["scopes"])})
    texts = (token.id, token.digest, token.name, *token.scopes)
    if not all(isinstance(text, str) and text.isascii() for text in texts[:2]):
        raise ValueError("id and digest must be text")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("name and scopes must be text")
    return token
