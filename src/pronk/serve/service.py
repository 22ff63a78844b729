"""A folder of models that are online: opened, recovered, asked, and closed with nothing lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pronk.estimators.atomic import FileLock
from pronk.serve import keyed, recovery, spec
from pronk.serve import rows as answers
from pronk.serve.errors import Refused, unknown_model
from pronk.serve.journal import ROLLBACK, Batch, Entry, Journal, JournalError, ModelRow
from pronk.serve.online import Known, Online
from pronk.serve.recovery import PORTION, drop, expire
from pronk.serve.worker import (
    GROUP,
    Deliver,
    Errand,
    Figures,
    Queues,
    Reader,
    Work,
    Writer,
    resolve,
)

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
    #: Start although the journal lacks labels that were acknowledged.
    accept_missing: bool = False
    #: Seconds between two rounds of housekeeping.
    round_seconds: float = 60.0


def _silent(event: str, **fields: Any) -> None:
    pass


class Service:
    """The models of a folder. `recover` opens them; `start` begins to answer.

    Whoever changes a model (`create`, `remove`, `snapshot`, `rollback`) does it in the place of its
    writer, by `order`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        note: Note = _silent,
        *,
        recover: bool = True,
    ) -> None:
        self.folder = folder
        self.settings = settings or Settings()
        self.note = note
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / "lock", str(folder), "one server a folder")
        self.models: dict[str, Online] = {}
        self.rows: dict[str, ModelRow] = {}
        self.figures = Figures()
        self.expired = self.dropped = 0  # predictions and rows, by housekeeping
        self.deliver: Deliver = resolve
        self.journal: Journal
        self.writer: Writer
        self.recovered = False
        self.stopping = threading.Event()
        self._changing = threading.Lock()  # of the tables of models
        self._keeper: threading.Thread | None = None
        self.reader = Reader(self._deliver, self.figures)
        rows = self.settings.queue_rows
        self.writes = Queues(rows, GROUP, lambda taken: self.writer.work(taken), "writer")
        self.reads = Queues(rows, GROUP, self.reader.work, "reader")
        if recover:
            self.recover()

    def recover(self) -> None:
        """Open the journal and bring the models to where they were."""
        try:
            self.journal = Journal(self.folder)
        except BaseException:
            self.lock.release()
            raise
        try:
            found = self.journal.models()
            self.journal.stopping = self.stopping
            if found:
                self.note("recovering", models=len(found))
            for row in found:
                self.rows[row.name] = row
                self.models[row.name] = self._recover(row)
            self._compare()
        except BaseException:
            self.close()
            raise
        for online in self.models.values():
            self.journal.versions[online.number] = online.version
        self.writer = Writer(
            self.journal, self._deliver, self.figures, self.model, self._after_group, self.note
        )
        self.recovered = True

    def _recover(self, row: ModelRow) -> Online:
        if spec.read(row.spec).key is not None:
            return keyed.recover(self.journal, row, self.folder, self.note)
        return recovery.recover(self.journal, row, self.folder, self.note)

    def _compare(self) -> None:
        """Notice a journal that has lost entries; refuse to go on without acknowledged labels."""
        missing = recovery.compare(self.journal, self.folder, self.models)
        if missing is None:
            return
        if not (missing.complete or self.settings.accept_missing):
            raise recovery.refuse(missing, self.folder)
        self.note(
            "WARNING: the journal is incomplete",
            reason=str(missing),
            labels="all are in snapshots" if missing.complete else "some are lost",
            ids="those of the missing entries are forgotten: a repeated request is learned again",
        )
        self.journal.accept(
            missing.last,
            {name: online.version for name, online in missing.ahead.items()},
            {name: spec.canonical(online.spec) for name, online in missing.unknown.items()},
        )
        self.rows = {row.name: row for row in self.journal.models()}
        for name, online in missing.unknown.items():
            online.number, online.created = self.rows[name].number, self.rows[name].created
            self.models[name] = online

    def _deliver(self, done: list[Any]) -> None:
        self.deliver(done)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to answer."""
        if self.stopping.is_set():
            return
        self._keeper = threading.Thread(target=self._keep_house, name="keeper", daemon=True)
        self._keeper.start()

    def stop(self) -> None:
        """Answer what waits, keep a snapshot of each model, let the folder go."""
        self.stopping.set()
        for queues in (self.writes, self.reads):
            queues.close()
            queues.join()
        if self._keeper is not None:
            self._keeper.join()
        try:
            for online in self.models.values():
                if online.version > online.snapshot and not online.broken:
                    self._snapshot(online)
                else:
                    self._write_answers(online)
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
        (self.writes if durable else self.reads).put(work.model.name, work)

    def order(self, name: str, call: Callable[[], Any], future: Any = None) -> Any:
        """Have a model's writer do something between two groups; the future of its outcome."""
        future = Future() if future is None else future
        self.writes.put(name, Errand(call, future), room=False)
        return future

    # -- what a writer does ------------------------------------------------------------------------

    def create(self, name: str, given: spec.Spec, learner: Any = None) -> tuple[Online, bool]:
        """The model, and whether it is new; of a checked spec."""
        with self._changing:
            return self._create(name, given, learner)

    def _create(self, name: str, given: spec.Spec, learner: Any) -> tuple[Online, bool]:
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
            recovery.save(_begun(first, learner), self.folder, self._known())
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
        """Forget a model, its rows and its snapshots."""
        online = self.model(name)
        number = online.number
        self.journal.commit(
            lambda last: Batch(
                more=[
                    (
                        "UPDATE models SET removed = ? WHERE number = ?",
                        (self.journal.now(), number),
                    ),
                    ("INSERT INTO highest VALUES (?)", (last,)),
                    ("DELETE FROM journal WHERE model = ?", (number,)),
                    ("DELETE FROM blocks WHERE model = ?", (number,)),
                    ("DELETE FROM snapshots WHERE model = ?", (number,)),
                ]
            )
        )
        with self._changing:
            self.models = {key: value for key, value in self.models.items() if key != name}
        for path in recovery.snapshots(self.folder, name).values():
            path.unlink(missing_ok=True)
        online.close()
        if online.spec.key is not None:
            keyed.remove_stores(self.folder, name)
        self.note("removed", model=name)

    def snapshot(self, name: str) -> int:
        """Keep the model as it is."""
        online = self._usable(name)
        version = self._snapshot(online)
        values = (online.number, version)
        self.journal.write(more=[("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", values)])
        return version

    def rollback(self, name: str, version: int | None = None) -> int:
        """Take back all that was learned after a sequence number, or the last kept snapshot."""
        online = self._usable(name)
        row = self.rows[name]
        if version is None:
            version = max(self.journal.pinned(online.number), default=None)
        if version is None:
            raise Refused(422, 'no snapshot was kept; give a version: {"version": 12}')
        if not row.start <= version <= online.version:
            raise Refused(422, f"version {version} is not between {row.start} and {online.version}")
        if any(after < version < before for after, before in self.journal.voided(online.number)):
            raise Refused(422, f"version {version} was itself taken back by an earlier rollback")
        self._write_answers(online)
        past: Online
        if online.spec.key is not None:
            past = keyed.rolled_back(self.journal, row, self.folder, version)
        else:
            past = recovery.recover(self.journal, row, self.folder, self.note, version)
        if past.broken:
            raise Refused(422, f"version {version} cannot be reached: {past.broken}")
        self._record_rollback(online, past.version)
        online.close()
        if isinstance(past, keyed.KeyedOnline):
            keyed.remove_stores(self.folder, name, keep=past.place)
        past.waiting = self.journal.waiting(online.number)
        with self._changing:
            self.models = {**self.models, name: past}
        self.note("rolled back", model=name, version=past.version)
        return past.version

    def _record_rollback(self, online: Online, version: int) -> None:
        self.journal.commit(lambda last: self._rollback_batch(online, version, last + 1))
        for made, path in recovery.snapshots(self.folder, online.name).items():
            if made > version:
                path.unlink(missing_ok=True)

    def _rollback_batch(self, online: Online, version: int, sequence: int) -> Batch:
        now, after = self.journal.now(), (online.number, version)
        return Batch(
            [
                Entry(
                    sequence, online.number, None, ROLLBACK, 0, None, None, version, None, now
                )
            ],
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
        )  # fmt: skip

    def _usable(self, name: str) -> Online:
        online = self.model(name)
        if online.broken:
            raise Refused(503, f"model {name!r} cannot be used: {online.broken}")
        return online

    def _snapshot(self, online: Online) -> int:
        self._write_answers(online)
        path = recovery.save(online, self.folder, self._known())
        self.note("snapshot", model=online.name, version=online.version, file=path.name)
        return online.version

    def _known(self) -> Known:
        """How far the journal is, and which versions it has of the models."""
        with self.journal.lock:
            versions = self.journal.versions
            found = {
                name: versions.get(online.number, online.version)
                for name, online in self.models.items()
            }
            return Known(self.journal.sequence, found)

    def _write_answers(self, online: Online) -> None:
        """Answers that would have gone with the model's next transaction."""
        waiting = online.unwritten
        if waiting:
            packed = [(block, online.number, answers.pack(a)) for block, a in waiting.items()]
            self.journal.commit(lambda last: Batch(answers=packed))
            waiting.clear()

    # -- now and then ------------------------------------------------------------------------------

    def _after_group(self, name: str) -> None:
        """The snapshot of a model, if it is due."""
        online = self.models.get(name)
        if online is None or online.broken:
            return
        if online.rows_since_snapshot >= self.settings.snapshot_rows:
            self._due_snapshot(online)

    def _due_snapshot(self, online: Online) -> None:
        try:
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

    def _keep_house(self) -> None:
        """Until the service stops: a round over all models now and then."""
        while not self.stopping.wait(self.settings.round_seconds):
            for name in list(self.models):
                self._order_house(name)

    def _order_house(self, name: str) -> None:
        with suppress(Refused):  # it is stopping
            self.order(name, lambda: self.keep_house(name))

    def keep_house(self, name: str) -> None:
        """Give up labels that never came and drop old rows, a portion at a time."""
        online, settings = self.models.get(name), self.settings
        if online is None or online.broken:
            return
        try:
            expired = expire(self.journal, online, settings.label_days)
            dropped = drop(
                self.journal, online, self.folder, settings.retention_days, settings.archive,
                self.note,
            )  # fmt: skip
        except Exception as error:  # the next round tries again
            self.note("housekeeping failed", model=name, reason=str(error))
            return
        with self._changing:
            self.expired += expired
            self.dropped += dropped
            self.rows = {row.name: row for row in self.journal.models()}
        if PORTION in (expired, dropped):
            self._order_house(name)


def _begun(row: ModelRow, learner: Any) -> Online:
    """A model that begins with a learner that has learned elsewhere."""
    online = Online(row)
    online.learner = learner
    return online
