"""A folder of models that are online: opened, recovered, asked, and closed with nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pronk.estimators.lock import FileLock
from pronk.serve import answers, keyed, recovery, spec
from pronk.serve.errors import Refused, unknown_model
from pronk.serve.housekeeping import Housekeeper
from pronk.serve.journal import ROLLBACK, Entry, Journal, JournalError, ModelRow
from pronk.serve.online import Online
from pronk.serve.queues import Deliver, Errand, Queue, Work, resolve
from pronk.serve.worker import Figures, Reader, Writer

Note = Callable[..., None]


@dataclass(frozen=True)
class Settings:
    """What can be set about a service."""

    queue_rows: int = 100_000
    snapshot_rows: int = 50_000
    most_models: int = 1_000
    retention_days: float = 30.0
    label_days: float = 7.0
    archive: bool = False


def _silent(event: str, **fields: Any) -> None:
    pass


class Service:
    """The models of a folder. Opening it recovers them; `start` begins to answer."""

    def __init__(
        self, folder: Path, settings: Settings | None = None, note: Note = _silent
    ) -> None:
        self.folder = folder
        self.settings = settings or Settings()
        self.note = note
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / "lock", str(folder), "one server a folder")
        try:
            self.journal = Journal(folder)
        except BaseException:
            self.lock.release()
            raise
        self.models: dict[str, Online] = {}
        self.rows: dict[str, ModelRow] = {}
        for row in self.journal.models():
            self.rows[row.name] = row
            self.models[row.name] = self._recover(row)
        self.figures = Figures()
        self.keeper = Housekeeper()
        self.deliver: Deliver = resolve
        self.writes = Queue(self.settings.queue_rows)
        self.reads = Queue(self.settings.queue_rows)
        self.writer = Writer(
            self.journal, self.writes, self._deliver, self.figures, self.model, self._idle, note
        )
        self.reader = Reader(self.reads, self._deliver, self.figures)
        self._threads: list[threading.Thread] = []

    def _recover(self, row: ModelRow) -> Online:
        if spec.read(row.spec).key is not None:
            return keyed.recover(self.journal, row, self.folder, self.note)
        return recovery.recover(self.journal, row, self.folder, self.note)

    def _deliver(self, done: list[Any]) -> None:
        self.deliver(done)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to answer."""
        for part in (self.writer, self.reader):
            thread = threading.Thread(target=part.run, name=type(part).__name__, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Answer what waits, keep a snapshot of each model, let the folder go."""
        for queue in (self.writes, self.reads):
            queue.close()
        for thread in self._threads:
            thread.join()
        self._threads = []
        try:
            self._write_answers()
            for online in self.models.values():
                if online.version > online.snapshot and not online.broken:
                    self._snapshot(online)
        except (JournalError, OSError) as error:  # the journal has all; the next start replays it
            self.note("stopped without a snapshot", reason=str(error))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the files, as they are."""
        for online in self.models.values():
            online.close()
        self.journal.close()
        self.lock.release()

    # -- requests ----------------------------------------------------------------------------------

    def model(self, name: str) -> Online:
        """The model of a name."""
        found = self.models.get(name)
        if found is None:
            raise unknown_model(name)
        return found

    def submit(self, work: Work) -> None:
        """Hand a request over; its future gets the outcome."""
        durable = work.labels is not None or work.id is not None
        (self.writes if durable else self.reads).put(work)

    def order(self, call: Callable[[], Any], future: Any = None) -> Any:
        """Have the writer do something between two groups; the future of its outcome."""
        future = Future() if future is None else future
        self.writes.put(Errand(call, future), room=False)
        return future

    # -- what the writer does ----------------------------------------------------------------------

    def create(self, name: str, given: spec.Spec, learner: Any = None) -> tuple[Online, bool]:
        """The model, and whether it is new. A checked spec; by the writer only."""
        text = spec.canonical(given)
        for known, online in self.models.items():
            if known.lower() == name.lower():
                if known == name and spec.canonical(online.spec) == text:
                    return online, False
                raise Refused(409, f"model {known!r} is there already, as something else")
        if len(self.models) >= self.settings.most_models:
            raise Refused(409, f"there are {len(self.models)} models already, the most allowed")
        for path in recovery.snapshots(self.folder, name).values():
            path.unlink()  # of a model of that name that was being made or removed in a crash
        if learner is not None:
            first = ModelRow(0, name, text, self.journal.sequence, 0.0, 0)
            recovery.save(_begun(first, learner), self.folder)
        row = self.journal.add_model(name, text)
        self.rows[name] = row
        if learner is not None:
            online = _begun(row, learner)
            kept = (row.number, row.start)
            self.journal.write(more=[("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", kept)])
        elif given.key is None:
            online = Online(row)
        else:
            keyed.remove_stores(self.folder, name)
            place = keyed.store_folder(self.folder, name, row.start)
            online = keyed.KeyedOnline(row, place)
        self.models = {**self.models, name: online}
        self.note("created", model=name, algorithm=given.algorithm, task=given.task)
        return online, True

    def remove(self, name: str) -> None:
        """Forget a model, its rows and its snapshots; by the writer only."""
        online = self.model(name)
        number = online.number
        self.journal.write(
            more=[
                ("UPDATE models SET removed = ? WHERE number = ?", (self.journal.now(), number)),
                ("INSERT INTO highest VALUES (?)", (self.journal.sequence,)),
                ("DELETE FROM journal WHERE model = ?", (number,)),
                ("DELETE FROM blocks WHERE model = ?", (number,)),
                ("DELETE FROM snapshots WHERE model = ?", (number,)),
            ]
        )
        self.models = {key: value for key, value in self.models.items() if key != name}
        for path in recovery.snapshots(self.folder, name).values():
            path.unlink(missing_ok=True)
        online.close()
        if online.spec.key is not None:
            keyed.remove_stores(self.folder, name)
        self._forget_answers(number)
        self.note("removed", model=name)

    def snapshot(self, name: str) -> int:
        """Keep the model as it is; by the writer only."""
        online = self._usable(name)
        self._write_answers()
        version = self._snapshot(online)
        values = (online.number, version)
        self.journal.write(more=[("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", values)])
        return version

    def rollback(self, name: str, version: int) -> int:
        """Take back all that was learned after a sequence number; by the writer only."""
        online = self._usable(name)
        row = self.rows[name]
        if not row.start <= version <= online.version:
            raise Refused(422, f"version {version} is not between {row.start} and {online.version}")
        if any(after < version < before for after, before in self.journal.voided(online.number)):
            raise Refused(422, f"version {version} was itself taken back by an earlier rollback")
        self._write_answers()
        past: Online
        if online.spec.key is not None:
            past = keyed.rolled_back(self.journal, row, self.folder, version)
        else:
            past = recovery.recover(self.journal, row, self.folder, self.note, version)
        if past.broken:
            raise Refused(422, f"version {version} cannot be reached: {past.broken}")
        self._record_rollback(online, version)
        online.close()
        if isinstance(past, keyed.KeyedOnline):
            keyed.remove_stores(self.folder, name, keep=past.place)
        past.waiting = self.journal.waiting(online.number)
        self.models = {**self.models, name: past}
        self.note("rolled back", model=name, version=past.version)
        return past.version

    def _record_rollback(self, online: Online, version: int) -> None:
        sequence = self.journal.sequence + 1
        entry = Entry(
            sequence, online.number, None, ROLLBACK, 0, None, None, version, None,
            self.journal.now(),
        )  # fmt: skip
        after = (online.number, version)
        self.journal.write(
            [entry],
            more=[
                (
                    "UPDATE journal SET void = ?, id = NULL WHERE model = ? AND sequence > ?"
                    " AND kind IN (1, 2) AND void IS NULL",
                    (sequence, *after),
                ),
                ("UPDATE journal SET done = NULL WHERE model = ? AND done > ?", after),
                ("DELETE FROM blocks WHERE model = ? AND block > ?", after),
                ("DELETE FROM snapshots WHERE model = ? AND sequence > ?", after),
            ],
        )
        for made, path in recovery.snapshots(self.folder, online.name).items():
            if made > version:
                path.unlink(missing_ok=True)

    def _usable(self, name: str) -> Online:
        online = self.model(name)
        if online.broken:
            raise Refused(503, f"model {name!r} cannot be used: {online.broken}")
        return online

    def _snapshot(self, online: Online) -> int:
        path = recovery.save(online, self.folder)
        self.note("snapshot", model=online.name, version=online.version, file=path.name)
        return online.version

    def _write_answers(self) -> None:
        """Answers that would have gone with the next transaction."""
        waiting = self.writer.unwritten
        if waiting:
            self.journal.write(
                answers=[(*key, answers.pack(found)) for key, found in waiting.items()]
            )
            waiting.clear()

    def _forget_answers(self, number: int) -> None:
        for key in [key for key in self.writer.unwritten if key[1] == number]:
            del self.writer.unwritten[key]

    def _idle(self) -> None:
        """Between groups: snapshots that are due, and what housekeeping there is."""
        for online in self.models.values():
            if online.rows_since_snapshot >= self.settings.snapshot_rows and not online.broken:
                self._due_snapshot(online)
        if self.keeper.due():
            self._keep_house()

    def _keep_house(self) -> None:
        settings = self.settings
        try:
            self.keeper.run(
                self.journal,
                list(self.models.values()),
                self.folder,
                settings.label_days,
                settings.retention_days,
                settings.archive,
            )
            self.rows = {row.name: row for row in self.journal.models()}
        except Exception as error:  # the next round tries again
            self.note("housekeeping failed", reason=str(error))

    def _due_snapshot(self, online: Online) -> None:
        try:
            self._write_answers()
            self._snapshot(online)
        except Exception as error:  # a full disk: the journal has everything
            online.rows_since_snapshot = 0
            self.note("snapshot failed", model=online.name, reason=str(error))
            return
        pinned = self.journal.pinned(online.number)
        made = recovery.snapshots(self.folder, online.name)
        automatic = [sequence for sequence in made if sequence not in pinned]
        for sequence in automatic[: -recovery.KEPT]:
            made[sequence].unlink(missing_ok=True)


def _begun(row: ModelRow, learner: Any) -> Online:
    """A model that begins with a learner that has learned elsewhere."""
    online = Online(row)
    online.learner = learner
    return online
