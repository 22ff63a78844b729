"""Brute-force twin of the default learner's recovery, row by row: detector, weight, decisions."""

import copy
import math
from itertools import chain

import numpy as np


def joined(buckets):
    return list(chain(*buckets))


class Adwin:
    """ADWIN on buckets of 32 losses: every loss is stored, every cut between buckets is tried."""

    def __init__(self, delta):
        self.delta, self.rows, self.open, self.buckets = delta, 0, [], []

    def add(self, loss):
        """Return (row, since, before, after) of a rise, counted from the first loss, or None."""
        self.rows += 1
        self.open.append(loss)
        if len(self.open) < 32:
            return None
        self.buckets.append(self.open)
        self.open = []
        size = 32
        while sum(len(b) == size for b in self.buckets) > 8:
            i = [len(b) for b in self.buckets].index(size)
            self.buckets[i : i + 2] = [self.buckets[i] + self.buckets[i + 1]]
            size *= 2
        found = None
        while (cut := self.cut()) is not None:
            older, newer = joined(self.buckets[:cut]), joined(self.buckets[cut:])
            if np.mean(newer) > np.mean(older) and found is None:
                since = self.rows - len(newer)
                found = self.rows - 1, since, np.mean(older), np.mean(newer)
            self.buckets = self.buckets[cut:]
        return found

    def cut(self):
        """Return the most significant cut, or None."""
        best, place = 1.0, None
        window = joined(self.buckets)
        sure = math.log(2 * len(self.buckets) / self.delta) if self.buckets else 0.0
        for k in range(1, len(self.buckets)):
            older, newer = joined(self.buckets[:k]), joined(self.buckets[k:])
            inverse = 1 / len(older) + 1 / len(newer)
            allowed = math.sqrt(2 * inverse * np.var(window) * sure) + 2 / 3 * inverse * sure
            ratio = abs(np.mean(newer) - np.mean(older)) / allowed
            if ratio > best:
                best, place = ratio, k
        return place


class Errors(Adwin):
    """The same for absolute errors, with a scale per output set at rows 64, 128, 256, .."""

    def __init__(self, delta, outputs):
        super().__init__(delta)
        self.scale, self.since = np.zeros(outputs), []

    def add(self, errors):
        known = self.scale > 0
        counted = np.where(known, np.minimum(errors, 10 * self.scale), errors)
        self.since.append(counted)
        with np.errstate(invalid="ignore"):
            losses = np.where(errors > 0, errors / (errors + self.scale), 0.0)
        found = super().add(float(losses.mean()))
        if self.rows >= 64 and math.log2(self.rows) % 1 == 0:
            mean, self.since = np.mean(self.since, axis=0), []
            kept = (self.scale / 2 <= mean) & (mean <= 2 * self.scale)
            if not kept.all():
                self.scale, self.buckets = np.where(kept, self.scale, mean), []
        return found


def brier(p, y, seen):
    """Return half the Brier score over the outputs that have had both signs."""
    live = [o for o in range(len(y)) if {-1, 1} <= seen[o]] or [0]
    total = sum(((p[o] - y[o]) / 2) ** 2 for o in live)
    return min(1.0, total / (2 if len(live) > 1 else 1))


def returning(retired, X, Y, P, signed):
    """Return the retired learner that is clearly better on the last 64 rows, and how many, or None.

    ``P`` are the final predictions of these rows.
    """
    best, found = 2.5, None
    for learner in retired:
        Q, _ = learner.predict(X)
        for n in (16, 32, 64):
            d = []
            for p, q, y in zip(P[-n:], Q[-n:], Y[-n:], strict=True):
                a, b = absolute(p, y), absolute(q, y)
                total = np.where(a + b > 0, a + b, 1.0)
                d.append(np.mean((a - b) / (2.0 if signed else total)))
            score = sum(d) / math.sqrt(sum(v * v for v in d) + 1e-300)
            if score >= best and np.mean(d) >= 0.05:
                best, found = score, (learner, n)
    return found


def refreshed(learner, X, Y, since, row):
    """Return a copy that has learned the 128 rows before a change again."""
    learner = copy.deepcopy(learner)
    if since >= 128 and row - since + 128 <= 512:
        learner.learn(X[since - 128 : since], Y[since - 128 : since])
    return learner


def absolute(p, y):
    return np.maximum(abs(p - y) - 1e-9 * np.maximum(abs(p), abs(y)), 0.0)


def grown(Y, P):
    """Return whether the mean error of the last 16 of 80 rows is twice that of the others."""
    errors = [absolute(p, y) for p, y in zip(P, Y, strict=True)]
    before = np.mean(errors[:64], axis=0)
    now = np.mean(errors[64:], axis=0)
    return np.mean(np.minimum(now / np.where(before > 0, before, 1e-300), 1e6)) >= 2.0


def recover(make, X, Y, signed, check, first, last, least, restart, delta=1e-4, delay=0, most=0):
    """Return predictions, error scales and events (alarm, since, outcome, end, returned).

    ``make()`` returns a new inner learner, ``make(True)`` a challenger. The target of row t is read
    after row t + ``delay`` is predicted. At ``most`` so many replaced learners are kept.
    """
    outputs = Y.shape[1]

    def new_detector():
        return Adwin(delta / 2**dropped) if signed else Errors(delta / 2**dropped, outputs)

    incumbent, challenger, dropped, events = make(), None, 0, []
    kept, retired = None, []
    detector, started = new_detector(), 0
    pairs, differences, odds, noise = [], [], 0.0, np.zeros(0)  # of the trial
    seen = [set() for _ in range(outputs)]
    made, scales = [], []
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        (p,), (s,) = incumbent.learn(x[None], y[None])
        if challenger is not None:
            (q,), (r,) = challenger.learn(x[None], y[None])
            w = 0.0 if len(pairs) < 8 + delay else 1 / (1 + math.exp(-odds))
            pairs.append((p, q))
            if w:
                p, s = (1 - w) * p + w * q, (1 - w) * s + w * r
        made.append(p)
        scales.append(s)
        known = t - delay
        if known < 0:
            continue
        y = Y[known]
        for o in range(outputs):
            seen[o].add(int(np.sign(y[o]) or 1))
        row = len(pairs) - 1 - delay  # of the trial, whose target arrives
        if challenger is not None and row >= 0:
            if signed:
                a, b = (np.sqrt([brier(z, y, seen)]) for z in pairs[row])
            else:
                a, b = (absolute(z, y) for z in pairs[row])
            if row >= 8 + delay:
                bound = np.where(noise > 0, 5 * noise, np.inf)
                rate = 1 / min(row - 7 - delay, 256)
                noise = noise + rate * (np.minimum(np.minimum(a, b), bound) - noise)
                v = np.maximum(noise, 1e-300) ** 2 * np.pi / 2
                d = float(np.mean(np.clip((a**2 - b**2) / v, -50, 50)))
                odds += min(max(d / 2, -2), 2)
                share = 0.999 / (1 + math.exp(-odds)) + 0.0005
                odds = math.log(share / (1 - share))
            differences.append(d if row >= 8 + delay else 0.0)
        rise = detector.add(brier(made[known], y, seen) if signed else absolute(made[known], y))
        age = t + 1 - started if challenger is None else len(pairs)
        if rise is not None and age >= delay + (least if challenger is None else restart):
            if most and kept is None:
                kept = refreshed(incumbent, X, Y, known - (rise[0] - rise[1]), t + 1)
            if challenger is not None:
                events[-1][2:4] = ["restarted", t + 1]
            events.append([t, known - (rise[0] - rise[1]), "on trial", None, None])
            challenger, pairs, differences, odds = make(True), [], [], -7.0
            noise = np.zeros(1 if signed else outputs)
            started_now = True
        else:
            started_now = False
        found = None
        if retired and (t + 1) % 16 == 0 and t + 1 >= 80 + delay:
            rows = slice(known - 79, known + 1)
            soon = challenger is not None and len(pairs) <= 256
            if soon or grown(Y[rows], made[rows]):
                rows = slice(known - 63, known + 1)
                found = returning(retired, X[rows], Y[rows], made[rows], signed)
        if found is not None and found[0].rows + found[1] + delay <= t + 1:
            learner, n = found
            again = slice(t + 1 - n - delay, t + 1)
            learner.learn(X[again], Y[again])
            retired = [one for one in retired if one is not learner]
            retired = [*retired, kept or refreshed(incumbent, X, Y, t + 1 - n - delay, t + 1)]
            retired = retired[-most:]
            incumbent, kept, started = learner, None, t + 1 - learner.rows - delay
            detector = new_detector()
            if not soon:
                if challenger is not None:
                    events[-1][2:4] = ["restarted", t + 1]
                events.append([t, t + 1 - n - delay, "on trial", None, None])
                challenger, pairs, differences, odds = make(True), [], [], -7.0
                noise = np.zeros(1 if signed else outputs)
            events[-1][4] = t + 1
        elif challenger is not None and not started_now:
            rows = len(differences)
            if rows % check or rows < first:
                continue
            half = np.array(differences[rows // check // 2 * check :])
            mean, sure = half.mean(), 3 * half.std() / math.sqrt(len(half))
            if mean > sure:
                if most:
                    place = len(retired) if events[-1][4] is None else 0
                    retired.insert(place, kept or copy.deepcopy(incumbent))
                    retired = retired[-most:]
                incumbent, challenger, started, dropped = challenger, None, t + 1 - len(pairs), 0
                detector, kept = new_detector(), None
                events[-1][2:4] = ["swap", t + 1]
            elif mean < -sure or rows >= last:
                challenger, kept = None, None
                if events[-1][4] is None:
                    dropped += 1
                    detector.delta = delta / 2**dropped
                events[-1][2:4] = ["dropped", t + 1]
    return np.array(made), np.array(scales), events
