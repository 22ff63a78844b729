"""`pronk serve --demo`: a generated stream for the server, so that the page moves.

Two models: one learns a drifting function at once, one says on which side of its median the next
value lies and gets its labels later, by the id of the prediction.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from itertools import chain, count
from typing import Any

from pronk.serve.client import Client
from pronk.streams import drifting

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
