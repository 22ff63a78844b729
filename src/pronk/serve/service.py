"""The service of a folder: recover its models, process requests, make snapshots, stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pronk.estimators.atomic import FileLock
from pronk.serve import keyed, recovery, spec
from pronk.serve.alerts import Alerts
from pronk.serve.journal import Journal, JournalError, ModelRow
from pronk.serve.online import RECOVERING, OnlineModel
from pronk.serve.recovery import PORTION, Log, drop, expire
from pronk.serve.spec import HTTPError
from pronk.serve.worker import (
    GROUP,
    Counters,
    Deliver,
    Item,
    Queues,
    Task,
    Work,
    Writer,
    predict_each,
    reader_queue,
    resolve,
)


@dataclass(frozen=True)
class Settings:
    """Hold the settings of a service."""

    queue_rows: int = 100_000
    snapshot_rows: int = 50_000
    most_models: int = 1_000
    retention_days: float = 30.0
    label_days: float = 7.0
    archive: bool = False
    #: Start although acknowledged labels are missing from the journal.
    accept_missing: bool = False
    #: Address to which alerts are posted (`pronk.serve.alerts`), the secret that signs them, and
    #: hours without a label that are an alert.
    alerts: str | None = None
    alert_secret: str | None = None
    alert_hours: float = 24.0
    #: Seconds between two runs of the housekeeping.
    round_seconds: float = 60.0


def _silent(event: str, **fields: Any) -> None:
    pass


class Service:
    """Serve the models of a folder. `recover` loads them, `start` begins the housekeeping.

    `create`, `remove`, `snapshot` and `rollback` must run on the model's writer thread; `schedule`
    calls them there.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        log: Log = _silent,
        *,
        recover: bool = True,
    ) -> None:
        self.folder = folder
        self.settings = settings or Settings()
        self.log = log
        folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(folder / "lock", str(folder), "one server per folder")
        self.models: dict[str, OnlineModel] = {}
        self.counters = Counters()
        self.deliver: Deliver = resolve
        self.journal: Journal
        self.writer: Writer
        self.opened = False  # requests are accepted; models that are being recovered refuse them
        self.recovered = False
        self.stopping = threading.Event()
        self._changing = threading.Lock()  # held while the tables of models change
        self._housekeeper: threading.Thread | None = None
        self.alerts: Alerts | None = None
        if self.settings.alerts is not None:
            own = self.settings
            self.alerts = Alerts(own.alerts or "", own.alert_secret, own.alert_hours, log)
        rows = self.settings.queue_rows
        self.writes = Queues(rows, GROUP, lambda items: self.writer.work(items), "writer")
        self.reads = Queues(rows, GROUP, self._predict, "reader")
        if recover:
            self.recover()

    def recover(self) -> None:
        """Open the journal and recover all models; each can be used as soon as it is recovered."""
        try:
            self.journal = Journal(self.folder)
        except BaseException:
            self.lock.release()
            raise
        try:
            found = self.journal.models()
            self.journal.stopping = self.stopping
            if found:
                self.log("recovering", models=len(found))
            for row in found:
                self.models[row.name] = self._restored(row)
            self._check_for_missing_entries()
            self.writer = Writer(
                self.journal,
                lambda done: self.deliver(done),
                self.counters,
                self.model,
                self._after_group,
                self.log,
            )
            todo = [online for online in self.models.values() if not online.broken]
            todo.sort(key=lambda one: self.journal.rows_behind(one.number, one.version))
            for online in todo:
                online.broken = RECOVERING
            self.opened = True
            for online in todo:
                recovery.catch_up(self.journal, online, self.log)
        except BaseException:
            self.opened = False
            self._end_queues()
            self.close()
            raise
        self.recovered = True

    def _restored(self, row: ModelRow) -> OnlineModel:
        """Return a model as it was saved; its journal is not replayed."""
        kind = recovery if spec.read(row.spec).key is None else keyed
        return kind.restored(self.journal, row, self.folder, self.log)

    def _check_for_missing_entries(self) -> None:
        """Check that the journal has all entries; raise if acknowledged labels are lost."""
        end, last = self.journal.sequence, recovery.last_acknowledged(self.journal, self.folder)
        if last == end:
            return
        ahead = {name: online for name, online in self.models.items() if online.version > end}
        held = ", ".join(f"{name} up to {online.version}" for name, online in ahead.items())
        missing = f"the journal ends at {end}, entries up to {last} were acknowledged"
        missing += f"; snapshots contain {held}" if held else ""
        if not self.settings.accept_missing:
            raise JournalError(
                f"{self.folder}: acknowledged entries are missing: {missing}. Restore the newest "
                "journal.sqlite, with its -wal file if it has one and without a -wal or -shm file "
                "of another journal; or start without these entries by --accept-missing"
            )
        self.log(
            "WARNING: the journal is incomplete",
            reason=missing,
            ids="ids of missing entries are unknown: a repeated request is learned again",
        )
        self.journal.accept(last, {online.number: online.version for online in ahead.values()})

    # -- start and stop --------------------------------------------------------------------------

    def start(self) -> None:
        """Start the housekeeping."""
        if self.stopping.is_set():
            return
        self._housekeeper = threading.Thread(
            target=self._housekeeping_loop, name="keeper", daemon=True
        )
        self._housekeeper.start()

    def stop(self) -> None:
        """Answer all waiting requests, save a snapshot of each model, release the folder."""
        self.stopping.set()
        self._end_queues()
        if self.alerts is not None:
            self.alerts.stop()
        if self._housekeeper is not None:
            self._housekeeper.join()
        try:
            for online in self.models.values():
                if online.version > online.snapshot and not online.broken:
                    self._snapshot(online)
                else:
                    recovery.write_answers(self.journal, online)
        except (JournalError, OSError) as error:  # the next start replays the journal
            self.log("stopped without a snapshot", reason=str(error))
        finally:
            self.close()

    def _end_queues(self) -> None:
        """Answer all waiting requests, and accept no more."""
        for queues in (self.writes, self.reads):
            queues.close()
            queues.join()

    def close(self) -> None:
        """Close all files as they are."""
        for online in self.models.values():
            online.close()
        self.journal.close()
        self.lock.release()

    # -- requests ----------------------------------------------------------------------------------

    def model(self, name: str) -> OnlineModel:
        """Return a model by name."""
        found = self.models.get(name)
        if found is None:
            raise HTTPError(404, f"there is no model {name!r}; GET /v2/models lists all models")
        return found

    def submit(self, work: Work) -> None:
        """Add a request to its queue; its future receives the outcome."""
        if work.labels is not None or work.id is not None:
            self.writes.put(work.model.name, work)
        else:
            self.reads.put(reader_queue(work), work)

    def _predict(self, items: list[Item]) -> None:
        works = cast(list[Work], items)
        predict_each(works, self.counters)
        self.deliver(works)

    def schedule(self, name: str, call: Callable[[], Any], future: Any = None) -> Any:
        """Call a function on a model's writer thread, between two groups; return its future."""
        future = Future() if future is None else future
        self.writes.put(name, Task(call, future), limited=False)
        return future

    # -- tasks of the writer -----------------------------------------------------------------------

    def create(self, name: str, given: spec.Spec, learner: Any = None) -> tuple[OnlineModel, bool]:
        """Create a model from a checked spec; return it and whether it is new."""
        text = spec.canonical(given)
        with self._changing:
            for known, online in self.models.items():
                if known.lower() == name.lower():
                    if known == name and spec.canonical(online.spec) == text:
                        return online, False
                    raise HTTPError(409, f"model {known!r} exists with another specification")
            if len(self.models) >= self.settings.most_models:
                raise HTTPError(409, f"there are {len(self.models)} models, which is the limit")
            for path in recovery.snapshots(self.folder, name).values():
                path.unlink()  # left by a crash while a model of this name was created or removed
            if learner is not None:
                first = ModelRow(0, name, text, self.journal.sequence, 0.0, 0)
                recovery.save(OnlineModel(first, learner), self.folder)
            row = self.journal.add_model(name, text)
            if learner is not None:
                self.journal.pin(row.number, row.start)
            if given.key is None:
                online = OnlineModel(row, learner)
            else:
                keyed.remove_stores(self.folder, name)
                place = keyed.store_folder(self.folder, name, row.start)
                online = keyed.KeyedOnlineModel(row, place)
            self.models = {**self.models, name: online}
        self.log("created", model=name, algorithm=given.algorithm, task=given.task)
        return online, True

    def remove(self, name: str) -> None:
        """Remove a model, its rows and its snapshots."""
        online = self.model(name)
        if online.broken == RECOVERING and online.refusal is not None:
            raise online.refusal
        self.journal.remove_model(online.number)
        with self._changing:
            self.models = {key: value for key, value in self.models.items() if key != name}
        for path in recovery.snapshots(self.folder, name).values():
            path.unlink(missing_ok=True)
        online.close()
        if online.spec.key is not None:
            keyed.remove_stores(self.folder, name)
        self.log("removed", model=name)

    def snapshot(self, name: str) -> int:
        """Save a snapshot that is kept until the model is removed; return its version."""
        online = self._usable(name)
        version = self._snapshot(online)
        self.journal.pin(online.number, version)
        return version

    def rollback(self, name: str, version: int | None = None) -> int:
        """Restore the model at a version, or at the last requested snapshot; return the version."""
        online = self._usable(name)
        row = self.journal.model(name)
        if version is None:
            version = max(self.journal.pinned(online.number), default=None)
        if version is None:
            raise HTTPError(422, 'there is no requested snapshot; give a version: {"version": 12}')
        if not row.start <= version <= online.version:
            raise HTTPError(
                422, f"version {version} is not between {row.start} and {online.version}"
            )
        if self.journal.was_undone(online.number, version):
            raise HTTPError(422, f"version {version} was undone by an earlier rollback")
        recovery.write_answers(self.journal, online)
        past: OnlineModel
        if online.spec.key is not None:
            past = keyed.rolled_back(self.journal, row, self.folder, version)
        else:
            past = recovery.recover(self.journal, row, self.folder, self.log, version)
        if past.broken:
            raise HTTPError(422, f"version {version} cannot be reached: {past.broken}")
        self.journal.roll_back(online.number, past.version)
        for made, path in recovery.snapshots(self.folder, name).items():
            if made > past.version:
                path.unlink(missing_ok=True)
        online.close()
        if isinstance(past, keyed.KeyedOnlineModel):
            keyed.remove_stores(self.folder, name, keep=past.place)
        past.waiting = self.journal.waiting(online.number)
        with self._changing:
            self.models = {**self.models, name: past}
        self.log("rolled back", model=name, version=past.version)
        return past.version

    def _usable(self, name: str) -> OnlineModel:
        online = self.model(name)
        if online.refusal is not None:
            raise online.refusal
        return online

    def _snapshot(self, online: OnlineModel) -> int:
        recovery.write_answers(self.journal, online)
        path = recovery.save(online, self.folder)
        self.log("snapshot", model=online.name, version=online.version, file=path.name)
        return online.version

    # -- housekeeping ------------------------------------------------------------------------------

    def _after_group(self, name: str) -> None:
        """Save a snapshot of a model if it is due."""
        online = self.models.get(name)
        if online is None or online.broken:
            return
        self._alert(online)
        if online.rows_since_snapshot >= self.settings.snapshot_rows:
            self._due_snapshot(online)

    def _alert(self, online: OnlineModel) -> None:
        if self.alerts is not None:
            try:
                self.alerts.look_at(online)
            except Exception as error:  # an alert never holds up learning
                self.log("alert failed", model=online.name, reason=repr(error)[:300])

    def _due_snapshot(self, online: OnlineModel) -> None:
        try:
            self._snapshot(online)
        except Exception as error:  # such as a full disk; the journal has everything
            online.rows_since_snapshot = 0
            self.log("snapshot failed", model=online.name, reason=str(error))
            return
        pinned = self.journal.pinned(online.number)
        made = recovery.snapshots(self.folder, online.name)
        automatic = [sequence for sequence in made if sequence not in pinned]
        for sequence in automatic[: -recovery.KEPT]:
            made[sequence].unlink(missing_ok=True)

    def _housekeeping_loop(self) -> None:
        """Schedule the housekeeping of all models at intervals until the service stops."""
        while not self.stopping.wait(self.settings.round_seconds):
            for name in list(self.models):
                self._schedule_housekeeping(name)

    def _schedule_housekeeping(self, name: str) -> None:
        with suppress(HTTPError):  # the service is stopping
            self.schedule(name, lambda: self.housekeeping(name))

    def housekeeping(self, name: str) -> None:
        """Expire predictions without labels and drop old rows of a model, one portion per call."""
        online, settings = self.models.get(name), self.settings
        if online is None or online.broken:
            return
        self._alert(online)
        try:
            expired = expire(self.journal, online, settings.label_days)
            dropped = drop(
                self.journal, online, self.folder, settings.retention_days, settings.archive,
                self.log,
            )  # fmt: skip
        except Exception as error:  # the next run tries again
            self.log("housekeeping failed", model=name, reason=str(error))
            return
        self.counters.add(labels_expired=expired, rows_dropped=dropped)
        if PORTION in (expired, dropped):
            self._schedule_housekeeping(name)
