"""Alerts of the service: JSON posted to an address, signed and retried, without holding it up.

An alert is posted when the loss of a model rises (``drift alarm``), when its learner reacts and
names the columns that changed (``change``), when a learner is replaced (``swap``), when a model is
worse than its baseline (``worse``), and when predictions wait but no label has come for the
hours that are set (``no labels``):

    {"event": "change", "model": "taxi", "row": 3040, "text": "..", "columns": ["fare"],
     "version": 3044, "id": "..."}

With a secret the header ``X-Pronk-Signature`` is ``sha256=`` and the hexadecimal HMAC-SHA256 of the
body. A post that fails is repeated after 1, 2, 4, .. seconds, `ATTEMPTS` times, with the same id;
then it is logged and dropped. One thread posts; when more than `MOST_WAITING` alerts wait, new ones
are dropped and logged. Alerts are about what happens while the service runs: a restart repeats
none.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from pronk.evaluate.trace import describe_change
from pronk.serve.online import OnlineModel, describe_alarm
from pronk.serve.spec import one_line

#: Tries of a post, seconds of one, and seconds before the first repetition, which then double.
ATTEMPTS, TIMEOUT, WAIT = 6, 10.0, 1.0
#: Most alerts that wait to be posted.
MOST_WAITING = 1000
#: Scored rows before a model is compared with its baseline.
LEAST_ROWS = 1000


def check_address(address: str) -> str:
    """Return an address of http or https; raise a ValueError for anything else."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{address!r} is not an address such as https://example.org/alerts")
    return address


def signature(secret: str, body: bytes) -> str:
    """Return the value of the header X-Pronk-Signature."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Alerts:
    """Notice what happens to models, and post it from a thread."""

    def __init__(
        self, address: str, secret: str | None, hours: float, log: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.address, self.secret, self.seconds = check_address(address), secret, 3600.0 * hours
        self.log, self.clock = log, clock
        self.posted = self.dropped = 0
        self._known: dict[str, dict[str, Any]] = {}  # what was seen of each model
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(MOST_WAITING)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._post_all, name="alerts", daemon=True)
        self._thread.start()

    # -- what is noticed -------------------------------------------------------------------------

    def look_at(self, online: OnlineModel) -> None:
        """Send alerts about what happened to a model since the last look; on its writer thread."""
        now, before = self._facts(online), self._known.get(online.name)
        if before is None or before["created"] != now["created"] or now["rows"] < before["rows"]:
            self._known[online.name] = now  # new, or rolled back: nothing is repeated
            return
        now["label"] = now["label"] if now["rows"] > before["rows"] else before["label"]
        now["silent"] = before["silent"] and now["rows"] == before["rows"]
        new = now["alarms"] - before["alarms"]
        for alarm in online.scores.drift.alarms[-new:] if new > 0 else []:
            self._send(online, "drift alarm", describe_alarm(alarm), row=alarm.row + 1)
        for row, change in now["changes"].items():
            old = before["changes"].get(row)
            facts = {"row": row + 1, "columns": change["columns"], "outcome": change["outcome"]}
            if old is None:
                self._send(online, "change", describe_change(change), **facts)
            took_over = change["outcome"] == "swap" or change["returned"]
            if took_over and not (old and (old["outcome"] == "swap" or old["returned"])):
                self._send(online, "swap", describe_change(change), **facts)
        if now["worse"] and not before["worse"]:
            self._send(online, "worse", "; ".join(online.scores.notes()), row=now["rows"])
        silence = self.clock() - now["label"]
        if online.waiting and silence > self.seconds and not now["silent"]:
            now["silent"] = True
            text = f"{online.waiting:,} predictions wait; no label for {silence / 3600:.1f} hours"
            self._send(online, "no labels", text, row=now["rows"])
        self._known[online.name] = now

    def _facts(self, online: OnlineModel) -> dict[str, Any]:
        scores = online.scores
        return {
            "created": online.created, "rows": scores.rows, "alarms": scores.alarms,
            "changes": {change["row"]: change for change in online.changes},
            "worse": scores.compared >= LEAST_ROWS and bool(scores.worse),
            "label": self.clock(), "silent": False,
        }  # fmt: skip

    # -- posting ---------------------------------------------------------------------------------

    def _send(self, online: OnlineModel, event: str, text: str, **facts: Any) -> None:
        alert = {"event": event, "model": online.name, "version": online.version, "text": text}
        try:
            self._queue.put_nowait({**alert, **facts, "id": uuid.uuid4().hex})
        except queue.Full:
            self._drop(alert, f"{MOST_WAITING} alerts wait already")

    def _drop(self, alert: dict[str, Any], reason: str) -> None:
        self.dropped += 1
        self.log("alert dropped", model=alert["model"], alert=alert["event"], reason=reason)

    def _post_all(self) -> None:
        while (alert := self._queue.get()) is not None:
            body, wait, reason = json.dumps(alert).encode(), WAIT, ""
            for attempt in range(ATTEMPTS):
                if attempt and self._stopping.wait(wait * 2 ** (attempt - 1)):
                    reason = f"the server is stopping; {reason}"
                    break
                reason = self._post(body)
                if not reason:
                    break
            if reason:
                self._drop(alert, reason)
            else:
                self.posted += 1

    def _post(self, body: bytes) -> str:
        """Post a body once; return why it failed, or nothing."""
        headers = {"Content-Type": "application/json"}
        if self.secret:
            headers["X-Pronk-Signature"] = signature(self.secret, body)
        request = urllib.request.Request(self.address, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT):
                return ""
        except (OSError, ValueError) as error:  # HTTPError is an OSError
            return one_line(error)[:200] or type(error).__name__
        except Exception as error:  # such as a malformed answer
            return repr(error)[:200]

    def stop(self) -> None:
        """Try each waiting alert once more, and end the thread within some seconds."""
        self._stopping.set()
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return  # the thread ends with the process
        self._thread.join(TIMEOUT)
