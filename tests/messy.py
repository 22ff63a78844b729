"""Six messy files as people have them: text, dates in three formats, gaps, duplicates, ids, rare
classes. Each is written by a function; `FILES` has them by name, with the target."""

import csv

import numpy as np
import pandas as pd

ROWS = 600


def _write(path, columns, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def _gaps(rng, values, share, mark=""):
    gone = rng.random(len(values)) < share
    return [mark if lost else value for value, lost in zip(values, gone, strict=True)]


def shop(path):
    """Orders: an id, ISO times, a city, gaps in numbers, rows that are there twice."""
    rng = np.random.default_rng(1)
    city = rng.choice(["Rome", "Oslo", "Lima", "Kyoto"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    items = rng.integers(1, 9, ROWS)
    price = np.round(5 + 3 * items + 4 * (city == "Oslo") + rng.normal(0, 0.5, ROWS), 2)
    times = pd.Timestamp("2024-02-28 22:10") + pd.to_timedelta(np.arange(ROWS) * 37, unit="min")
    twice = np.sort(np.r_[np.arange(ROWS - 40), rng.integers(0, ROWS - 40, 40)])
    rows = {
        "order_id": [f"A{i:05d}" for i in twice],
        "time": times[twice].strftime("%Y-%m-%dT%H:%M:%S"),
        "city": city[twice],
        "items": _gaps(rng, items[twice], 0.05, "NA"),
        "price": price[twice],
    }
    return _write(path, rows)


def energy(path):
    """Hourly load with days first, decimal commas and semicolons."""
    rng = np.random.default_rng(2)
    times = pd.date_range("2023-12-25", periods=ROWS, freq="h")
    load = 40 + 9 * np.sin(2 * np.pi * times.hour / 24) - 6 * (times.day_of_week >= 5)
    load = np.asarray(load) + rng.normal(0, 0.6, ROWS)
    degrees = 4 + 3 * np.sin(2 * np.pi * np.arange(ROWS) / 200) + rng.normal(0, 1, ROWS)
    rows = {
        "Zeit": times.strftime("%d.%m.%Y %H:%M"),
        "Grad": [f"{x:.1f}".replace(".", ",") for x in degrees],
        "Last": [f"{x:.2f}".replace(".", ",") for x in load],
    }
    return _write(path, rows, ";")


def visits(path):
    """Clinic: months first, yes and no, a question mark for unknown, a rare class."""
    rng = np.random.default_rng(3)
    dates = pd.Timestamp("2022-01-05") + pd.to_timedelta(np.arange(ROWS) // 3, unit="D")
    age = rng.integers(18, 95, ROWS)
    smoker = rng.random(ROWS) < 0.3
    score = 0.05 * (age - 60) + 1.5 * smoker + rng.normal(0, 0.6, ROWS)
    state = np.where(score > 2.7, "critical", np.where(score > 0, "ill", "healthy"))
    rows = {
        "visit": dates.strftime("%m/%d/%Y"),
        "age": _gaps(rng, age, 0.1, "?"),
        "smoker": np.where(smoker, "yes", "no"),
        "state": state,
    }
    return _write(path, rows)


def sensors(path):
    """Sensors: three formats of dates in one column, labels that are missing, infinite values."""
    rng = np.random.default_rng(4)
    times = pd.date_range("2024-05-01", periods=ROWS, freq="20min")
    formats = rng.choice(
        ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%Y/%m/%d %H:%M"], ROWS, p=[0.8, 0.1, 0.1]
    )
    a, b = rng.normal(size=(2, ROWS))
    y = 2 * a + np.where(np.arange(ROWS) > 400, -3, 1) * b + rng.normal(0, 0.2, ROWS)
    rows = {
        "when": [time.strftime(how) for time, how in zip(times, formats, strict=True)],
        "sensor": rng.choice(["s1", "s2", "S2 ", "s3"], ROWS),
        "a": np.round(a, 4),
        "b": _gaps(rng, np.round(b, 4), 0.08),
        "y": _gaps(rng, np.round(y, 3), 0.1),
    }
    return _write(path, rows)


def tickets(path):
    """Support: free text, an address of mail, many categories, whole numbers to predict."""
    rng = np.random.default_rng(5)
    words = np.array(["slow", "login", "invoice", "refund", "crash", "update", "please", "thanks"])
    text = [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(ROWS)]
    product = rng.choice([f"P-{i:03d}" for i in range(60)], ROWS)
    hours = [
        3 + 5 * ("crash" in t) + 2 * ("refund" in t) + int(p[2:]) // 15
        for t, p in zip(text, product, strict=True)
    ]
    rows = {
        "mail": [f"user{i}@example.org" for i in rng.integers(0, ROWS, ROWS)],
        "message": text,
        "product": product,
        "priority": _gaps(rng, rng.choice(["low", "mid", "high"], ROWS), 0.2),
        "hours": rng.poisson(hours),
    }
    return _write(path, rows)


def fraud(path):
    """Payments: a constant column, an empty one, an id of numbers, 2 % of one class."""
    rng = np.random.default_rng(6)
    amount = np.round(rng.lognormal(3, 1.2, ROWS), 2)
    night = rng.random(ROWS) < 0.2
    bad = (amount > 120) & night
    rows = {
        "id": np.arange(ROWS) + 900_000,
        "currency": ["EUR"] * ROWS,
        "note": [""] * ROWS,
        "amount": amount,
        "night": np.where(night, "true", "false"),
        "fraud": np.where(bad, 1, 0),
    }
    return _write(path, rows)


#: Target and options that the file needs, by name.
FILES = {
    "shop": (shop, "price", ()),
    "energy": (energy, "Last", ("--decimal", ",")),
    "visits": (visits, "state", ("--na", "?")),
    "sensors": (sensors, "y", ()),
    "tickets": (tickets, "hours", ()),
    "fraud": (fraud, "fraud", ()),
}
