"""Two threads that do the work: one writes and learns, one predicts.

The writer takes all that waits, writes one transaction, learns one block a model, then answers all.
There is no timer: what comes while it works is the next group. The order is journal, learn, answer;
a crash between any two is repaired by the journal.

The reader predicts each request by itself (a prediction does not depend on what came with it) and
waits for a model's lock no longer than for one piece of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from pronk.serve import answers
from pronk.serve.answers import Answer
from pronk.serve.errors import Refused
from pronk.serve.journal import LABEL, LEARN, PREDICT, Entry, Journal, JournalError
from pronk.serve.labels import label_kind, unpack_labels
from pronk.serve.online import REFUSALS, Online
from pronk.serve.queues import Deliver, Errand, Queue, Work

#: Rows that the writer takes at once. What waits beyond them is the next group.
GROUP = 4000


@dataclass
class Figures:
    """What the threads count."""

    requests: int = 0
    groups: int = 0
    learned_rows: int = 0
    predicted_rows: int = 0
    refused: int = 0
    commit_seconds: float = 0.0
    learn_seconds: float = 0.0
    largest_group: int = 0
    repeated: int = 0


@dataclass
class Writer:
    """The thread that writes the journal and learns."""

    journal: Journal
    queue: Queue
    deliver: Deliver
    figures: Figures
    current: Callable[[str], Online]
    idle: Callable[[], None]
    note: Callable[..., None]
    #: Answers of learned blocks that go with the next transaction.
    unwritten: dict[tuple[int, int], list[Answer]] = field(default_factory=dict)

    def run(self) -> None:
        """Until the queue is closed and empty."""
        while True:
            taken = self.queue.take(GROUP, timeout=1.0)
            if taken is None:
                return
            if not taken:
                self.idle()
                continue
            if isinstance(taken[0], Errand):
                self._obey(taken[0])
                continue
            self.group([item for item in taken if isinstance(item, Work)])
            self.idle()

    def _obey(self, order: Errand) -> None:
        try:
            order.outcome = order.call()
        except (JournalError, OSError) as error:
            text = " ".join(str(error).split())
            self.note("order failed", reason=text)
            order.outcome = Refused(507, f"{text}; nothing was changed", {"Retry-After": "10"})
        except Exception as error:
            order.outcome = error
        self.deliver([order])

    # -- one group: journal, learn, answer ---------------------------------------------------------

    def group(self, works: list[Work]) -> None:
        """Take a group through the three steps."""
        admitted = self._admit(works)
        if admitted and self._commit(admitted):
            self._learn(admitted)
        for work in works:
            if work.twin is not None:
                work.outcome = work.twin.outcome
        self.figures.groups += 1
        self.figures.requests += len(works)
        self.figures.refused += sum(isinstance(work.outcome, Refused) for work in works)
        self.deliver(works)

    def _admit(self, works: list[Work]) -> list[Work]:
        """Those that go into the journal; the others have their outcome."""
        admitted: list[Work] = []
        seen: dict[tuple[int, str, bool], Work] = {}
        kinds: dict[int, str] = {}
        for work in works:
            try:
                work.model = self.current(work.model.name)  # it may be another one by now
                if work.model.broken:
                    raise Refused(
                        503, f"model {work.model.name!r} cannot be used: {work.model.broken}"
                    )
            except Refused as error:
                work.outcome = error
        known = self._look_up(works)
        for work in works:
            if work.outcome is not None:
                continue
            before = known.get((work.model.number, work.id or ""), {})
            try:
                if work.id is not None and self._repeated(work, seen, before):
                    self.figures.repeated += 1
                    continue
                self._check(work, before.get(PREDICT), kinds)
            except Refused as error:
                work.outcome = error
                continue
            admitted.append(work)
            if work.id is not None:
                seen[work.model.number, work.id, work.labels is not None] = work
        return admitted

    def _look_up(self, works: list[Work]) -> dict[tuple[int, str], dict[int, Entry]]:
        """What the journal has of the ids of a group: one question a model."""
        ids: dict[int, list[str]] = {}
        for work in works:
            if work.id is not None and work.outcome is None:
                ids.setdefault(work.model.number, []).append(work.id)
        return {
            (number, id): entries
            for number, asked in ids.items()
            for id, entries in self.journal.find(number, asked).items()
        }

    def _repeated(
        self,
        work: Work,
        seen: dict[tuple[int, str, bool], Work],
        before: dict[int, Entry],
    ) -> bool:
        """Whether this id was there before: then its answer is the stored one."""
        assert work.id is not None
        labels_alone = work.labels is not None and work.rows is None
        twin = seen.get((work.model.number, work.id, work.labels is not None))
        if twin is not None:
            same = work.labels == twin.labels if labels_alone else work.content == twin.content
            if not same:
                raise _other_content(work.id)
            work.twin = twin
            return True
        if work.labels is None:
            entry = before.get(PREDICT)
            if entry is None and LEARN in before:
                raise _other_content(work.id)
        else:
            entry = before.get(LEARN) or before.get(LABEL)
        if entry is None:
            return False
        same = labels_alone or work.rows == entry.rows
        if work.labels is not None:
            same = same and work.labels == entry.labels
        if not same:
            raise _other_content(work.id)
        work.outcome = self._stored(entry)
        return True

    def _stored(self, entry: Entry) -> Answer | Refused:
        if entry.kind == PREDICT:
            return answers.unpack(entry.answer or b"")
        key = (entry.block or 0, entry.model)
        found = self.unwritten.get(key)
        if found is None:
            found = answers.unpack_block(self.journal.answers(*key) or b"\x90")
        for answer in found:
            if answer.version == entry.sequence:
                return _outcome(answer)
        raise Refused(410, f"the answer to id {entry.id!r} is no longer kept; it was learned")

    def _check(self, work: Work, earlier: Entry | None, kinds: dict[int, str]) -> None:
        """What only the writer can check, in the order of the requests."""
        model = work.model
        if work.labels is None:
            return
        if work.rows is None and earlier is None:
            raise Refused(
                404, f"no prediction with the id {work.id!r} is known, or it waited too long"
            )
        if earlier is not None:
            if work.rows is not None and work.rows != earlier.rows:
                raise _other_content(work.id or "")
            if work.count != earlier.size:
                raise Refused(422, f"labels: there are {work.count} for {earlier.size} rows")
            work.entry = earlier
        if model.spec.task == "classification":
            kind = label_kind(unpack_labels(work.labels)[0])
            known = kinds.setdefault(model.number, model.label_kind or kind)
            if kind != known:
                raise Refused(422, f"row 0, label: {kind}, the model's labels so far: {known}")

    def _commit(self, works: list[Work]) -> bool:
        """Write the transaction; False if it was not taken, and then nothing was learned."""
        sequence, now = self.journal.sequence, self.journal.now()
        blocks: dict[int, int] = {}
        entries, more = [], []
        for work in works:
            sequence += 1
            number = work.model.number
            earlier, answer, block, kind, rows = work.entry, None, None, PREDICT, work.rows
            if work.labels is None:
                try:
                    found = work.model.predict(work.rows or b"")
                except Exception as error:
                    work.outcome = _refusal(error)
                    continue
                answer = answers.pack(found)
                work.outcome = found
            else:
                block = blocks.setdefault(number, sequence)
                kind = LEARN if earlier is None else LABEL
                if earlier is not None:
                    rows, answer = earlier.rows, earlier.answer
                    more.append(
                        (
                            "UPDATE journal SET done = ? WHERE sequence = ?",
                            (sequence, earlier.sequence),
                        )
                    )
            work.entry = Entry(
                sequence, number, work.id, kind, work.count, rows, work.labels,
                block, answer, now,
            )  # fmt: skip
            entries.append(work.entry)
        written = [(*key, answers.pack(found)) for key, found in self.unwritten.items()]
        began = perf_counter()
        try:
            self.journal.write(entries, written, more)
        except JournalError as error:
            refusal = Refused(507, f"{error}; nothing was learned", {"Retry-After": "10"})
            for work in works:
                work.outcome, work.entry = refusal, None
            self.note("journal failed", reason=str(error), requests=len(works))
            return False
        self.unwritten.clear()
        self.figures.commit_seconds += perf_counter() - began
        return True

    def _learn(self, works: list[Work]) -> None:
        began = perf_counter()
        groups: dict[int, list[Work]] = {}
        for work in works:
            if work.entry is None:
                continue
            if work.entry.kind == PREDICT:
                work.model.waiting += 1
                self.figures.predicted_rows += work.count
                continue
            if work.entry.kind == LABEL:
                work.model.waiting -= 1
            groups.setdefault(work.model.number, []).append(work)
        for group in groups.values():
            self._learn_block(group)
        self.figures.learn_seconds += perf_counter() - began

    def _learn_block(self, works: list[Work]) -> None:
        model = works[0].model
        entries = [work.entry for work in works if work.entry is not None]
        try:
            found = model.learn(entries)
        except Exception as error:  # no memory, say: the journal has it, a restart learns it
            model.broken = f"learning failed ({type(error).__name__}); restart the server"
            self.note("learning failed", model=model.name, reason=repr(error))
            for work in works:
                work.outcome = Refused(503, f"model {model.name!r}: {model.broken}")
            return
        self.unwritten[entries[0].block or 0, model.number] = found
        rows = 0
        for work, answer in zip(works, found, strict=True):
            work.outcome = _outcome(answer)
            rows += work.count
        self.figures.learned_rows += rows
        self.figures.largest_group = max(self.figures.largest_group, rows)


def _outcome(answer: Answer) -> Answer | Refused:
    return answer if answer.error is None else Refused(422, answer.error)


def _refusal(error: Exception) -> Exception:
    """Rows that a learner does not take are the client's matter; anything else is ours."""
    if isinstance(error, REFUSALS):
        return Refused(422, " ".join(str(error).split()))
    return error


def _other_content(id: str) -> Refused:
    return Refused(422, f"id {id[:100]!r} was used before with other content")


@dataclass
class Reader:
    """The thread that predicts what needs no journal."""

    queue: Queue
    deliver: Deliver
    figures: Figures

    def run(self) -> None:
        while True:
            taken = self.queue.take(GROUP)
            if taken is None:
                return
            self.figures.requests += len(taken)
            for work in taken:
                assert isinstance(work, Work)
                work.outcome = self._predict(work)
                self.figures.predicted_rows += work.count
            self.deliver(taken)

    def _predict(self, work: Work) -> Any:
        if work.model.broken:
            return Refused(503, f"model {work.model.name!r} cannot be used: {work.model.broken}")
        try:
            return work.model.predict(work.rows or b"")
        except Exception as error:
            return _refusal(error)
