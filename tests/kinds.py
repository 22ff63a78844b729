"""Kinds of files that people have, each written by a function that gives the file's ending.

`KINDS` has them by name. The target is ``y`` everywhere. Except where the name says otherwise, y is
the same function of a number, a wave of the hour and a category, so that a column that was read
wrongly or left out shows in the figure.
"""

import csv
import gzip
import io
import json
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1500
CITIES = np.array(["Rome", "Oslo", "Lima", "Kyoto"])


def table(rows=ROWS, seed=0):
    """Return the columns time, size, city and y of the usual stream, as a frame."""
    rng = np.random.default_rng(seed)
    time = pd.Timestamp("2024-02-25 22:00") + pd.to_timedelta(np.arange(rows), unit="h")
    size = rng.uniform(1, 9, rows).round(3)
    city = rng.choice(CITIES, rows, p=[0.4, 0.3, 0.2, 0.1])
    wave = np.sin(2 * np.pi * (time.hour.to_numpy() - 9) / 24)
    level = np.array(
        [{"Rome": 3.0, "Oslo": -4.0, "Lima": 0.0, "Kyoto": 6.0}[name] for name in city]
    )
    y = 20 + 2 * (size - 5) + 4 * wave + level + rng.normal(0, 0.3, rows)
    return pd.DataFrame({"time": time, "size": size, "city": city, "y": y.round(3)})


def as_csv(frame, path, encoding="utf-8", **options):
    path.write_text(frame.to_csv(index=False, **options), encoding=encoding, newline="")


def european(path):
    """Write semicolons, decimal commas, days first and a byte-order mark."""
    frame = table()
    frame["time"] = frame["time"].dt.strftime("%d.%m.%Y %H:%M")
    as_csv(frame, path, "utf-8-sig", sep=";", decimal=",")


def latin(path):
    frame = table()
    names = {"Rome": "Málaga", "Oslo": "Tromsø", "Lima": "Zürich", "Kyoto": "Besançon"}
    as_csv(frame.assign(city=frame["city"].map(names)), path, "latin-1")


def amounts(path):
    """Write money and shares as a spreadsheet shows them."""
    frame = table()
    price = [f"${1000 * value:,.2f}" for value in frame["size"]]
    share = [f"{value:.1f}%" for value in 10 * frame["size"]]
    as_csv(frame.assign(size=price, share=share), path)


def zones(path):
    """Write times with a zone that changes in spring, and gaps in every column."""
    rng = np.random.default_rng(1)
    frame = table()
    local = frame["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    frame["time"] = [moment.isoformat() for moment in local]
    for column in ("time", "size", "city"):
        frame.loc[rng.random(ROWS) < 0.03, column] = None
    as_csv(frame, path)


def repeated_header(path):
    """Write three exports one after the other, each with its header."""
    text = table().to_csv(index=False).splitlines()
    path.write_text("\n".join([*text[:500], text[0], *text[500:1100], text[0], *text[1100:], ""]))


def wide(path):
    """Write 300 columns, of which 240 are constant."""
    rng = np.random.default_rng(2)
    frame = table()
    dull = {f"flag{i}": np.full(ROWS, [0, 1, "x", ""][i % 4], dtype=object) for i in range(240)}
    noise = {f"noise{i}": rng.normal(size=ROWS).round(4) for i in range(57)}
    more = pd.DataFrame({**dull, **noise})
    as_csv(pd.concat([frame[["time"]], more, frame[["size", "city", "y"]]], axis=1), path)


def json_cells(path):
    frame = table()
    cells = [
        json.dumps({"size": s, "city": c})
        for s, c in zip(frame["size"], frame["city"], strict=True)
    ]
    as_csv(frame.assign(detail=cells)[["time", "detail", "y"]], path)


def nested(path):
    frame = table()
    place = [
        {"city": city, "shape": {"size": size}, "tags": ["a", "b"]}
        for city, size in zip(frame["city"], frame["size"], strict=True)
    ]
    pq.write_table(pa.table({"time": frame["time"], "place": place, "y": frame["y"]}), path)


def yes_no(path):
    frame = table()
    large = frame["size"] > 5
    y = np.where(large ^ (frame["city"] == "Oslo"), "yes", "no")
    as_csv(frame.assign(size=np.where(large, "Y", "N"), y=y), path)


def identifiers(path):
    rng = np.random.default_rng(3)
    frame = table()
    names = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS)]
    frame.insert(0, "id", names)
    as_csv(frame, path)


def rare(path):
    frame = table(4000)
    y = np.where((frame["size"] > 8.6) & (frame["city"] == "Rome"), "fraud", "fine")
    as_csv(frame.assign(y=y), path)


def late_classes(path):
    frame = table()
    y = np.where(frame["size"] > 5, "large", "small").astype(object)
    y[(np.arange(ROWS) > 700) & (frame["city"] == "Rome")] = "roman"
    as_csv(frame.assign(y=y), path)


def missing_labels(path):
    frame = table()
    frame.loc[np.random.default_rng(4).random(ROWS) < 0.3, "y"] = None
    as_csv(frame, path)


def reordered(path):
    """Write two files of one folder: other columns in another order in the second."""
    path.mkdir()
    frame = table()
    as_csv(frame[:800], path / "part-1.csv")
    second = frame[800:].assign(extra=1.0)
    as_csv(second[["y", "extra", "city", "size", "time"]], path / "part-2.csv")


def units(path):
    """Write a size in metres that is in millimetres from the middle on."""
    frame = table(3000)
    frame.loc[1500:, "size"] *= 1000
    as_csv(frame, path)


def stores(path):
    """Write 50 stores by name, each with a level of its own."""
    rng = np.random.default_rng(5)
    frame = table(4000)
    level = rng.normal(0, 5, 50)
    store = rng.integers(0, 50, len(frame))
    names = [f"Store {i:02d} Main Street" for i in range(50)]
    frame["city"] = [names[i] for i in store]
    frame["y"] = (frame["y"] * 0.3 + level[store]).round(3)
    as_csv(frame, path)


def stuck(path):
    """Write a second sensor that sticks to one value for a third of the time."""
    rng = np.random.default_rng(6)
    frame = table()
    sensor = (frame["y"] / 4 + rng.normal(0, 0.2, ROWS)).round(2)
    sensor[500:1000] = sensor[499]
    as_csv(frame.assign(sensor=sensor), path)


def odd_numbers(path):
    """Write NaN, Inf and other words for no number."""
    frame = table().astype({"size": object})
    rng = np.random.default_rng(7)
    for word in ("NaN", "Inf", "-inf", "n/a", "#N/A", "-"):
        frame.loc[rng.random(ROWS) < 0.01, "size"] = word
    as_csv(frame, path)


def constant_start(path):
    """Write a sensor that is switched on at row 300."""
    frame = table()
    frame.loc[:299, "size"] = 0.0
    as_csv(frame, path)


def gzipped(path):
    path.write_bytes(gzip.compress(table().to_csv(index=False).encode()))


def zstandard(path):
    data = table().to_csv(index=False).encode()
    with pa.output_stream(str(path), compression="zstd") as file:
        file.write(data)


def typed(path):
    """Write decimals, a dictionary, nanoseconds and booleans with nulls."""
    frame = table()
    exact = pa.array(frame["size"].astype(str)).cast(pa.decimal128(8, 3))
    flag = [None if i % 10 == 0 else bool(value > 5) for i, value in enumerate(frame["size"])]
    columns = {
        "time": pa.array(frame["time"]).cast(pa.timestamp("ns")),
        "size": exact,
        "city": pa.array(frame["city"]).dictionary_encode(),
        "flag": pa.array(flag),
        "y": frame["y"],
    }
    pq.write_table(pa.table(columns), path)


def lines(path):
    """Write NDJSON whose keys are sometimes absent and whose numbers are sometimes text."""
    rng = np.random.default_rng(8)
    out = []
    for row in table().assign(time=lambda f: f["time"].astype(str)).to_dict("records"):
        if rng.random() < 0.1:
            del row[str(rng.choice(["time", "size", "city"]))]
        if rng.random() < 0.2 and "size" in row:
            row["size"] = str(row["size"])
        out.append(json.dumps(row))
    path.write_text("\n".join(out) + "\n")


def long_text(path):
    rng = np.random.default_rng(9)
    words = np.array(
        [
            "good",
            "bad",
            "slow",
            "fast",
            "large",
            "small",
            "blue",
            "red",
            "warm",
            "cold",
            "new",
            "old",
        ]
    )
    frame = table()
    frame["comment"] = [" ".join(rng.choice(words, 40)) for _ in range(ROWS)]
    as_csv(frame[["time", "size", "comment", "city", "y"]], path)


def only_y(path):
    as_csv(table()[["y"]].rolling(5).mean().dropna(), path)


def newest_first(path):
    """Write a series that depends on its past, the newest row first."""
    rng = np.random.default_rng(10)
    frame = table()
    walk = np.cumsum(rng.normal(0, 1, ROWS))
    as_csv(frame.assign(y=(frame["y"] + walk).round(3))[::-1], path)


def spreadsheet(path):
    """Write an unnamed index and a last row of totals."""
    frame = table()
    text = frame.to_csv()
    path.write_text(text + f"Total,,{frame['size'].sum():.3f},,{frame['y'].sum():.3f}\n")


def codes(path):
    """Write zip codes: whole numbers whose order has no meaning."""
    frame = table()
    zips = {"Rome": 20095, "Oslo": 20097, "Lima": 80331, "Kyoto": 10115}
    as_csv(frame.assign(city=frame["city"].map(zips)), path)


def counts(path):
    frame = table()
    mean = np.exp((frame["y"] - 20) / 8)
    as_csv(frame.assign(y=np.random.default_rng(11).poisson(mean)), path)


def five_rows(path):
    as_csv(table(5), path)


def comments(path):
    """Write comment lines at the top and runs of spaces between the columns."""
    frame = table().assign(time=lambda f: f["time"].dt.strftime("%Y-%m-%dT%H:%M"))
    widths = [18, 10, 8, 10]
    out = ["# station 7", "# units: m, h"]
    for row in [list(frame.columns), *frame.astype(str).to_numpy().tolist()]:
        out.append("".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)))
    path.write_text("\n".join(out) + "\n")


def json_array(path):
    rows = table().assign(time=lambda f: f["time"].astype(str)).to_dict("records")
    path.write_text(json.dumps(rows, indent=1))


def carriage_returns(path):
    out = io.StringIO()
    frame = table()
    writer = csv.writer(out, lineterminator="\r")
    writer.writerow(frame.columns)
    writer.writerows(frame.to_numpy().tolist())
    path.write_text(out.getvalue(), newline="")


#: name: (function, ending, least R2 or accuracy over all rows that a right reading gives)
KINDS = {
    "european": (european, ".csv", 0.9),
    "latin": (latin, ".csv", 0.9),
    "amounts": (amounts, ".csv", 0.9),
    "zones": (zones, ".csv", 0.75),
    "repeated_header": (repeated_header, ".csv", 0.9),
    "wide": (wide, ".csv", 0.5),
    "json_cells": (json_cells, ".csv", 0.9),
    "nested": (nested, ".parquet", 0.9),
    "yes_no": (yes_no, ".csv", 0.95),
    "identifiers": (identifiers, ".csv", 0.85),
    "rare": (rare, ".csv", 0.985),
    "late_classes": (late_classes, ".csv", 0.9),
    "missing_labels": (missing_labels, ".csv", 0.9),
    "reordered": (reordered, "", 0.9),
    "units": (units, ".csv", 0.75),
    "stores": (stores, ".csv", 0.8),
    "stuck": (stuck, ".csv", 0.9),
    "odd_numbers": (odd_numbers, ".csv", 0.85),
    "constant_start": (constant_start, ".csv", 0.75),
    "gzipped": (gzipped, ".csv.gz", 0.9),
    "zstandard": (zstandard, ".csv.zst", 0.9),
    "typed": (typed, ".parquet", 0.9),
    "lines": (lines, ".ndjson", 0.85),
    "long_text": (long_text, ".csv", 0.85),
    "only_y": (only_y, ".csv", 0.5),
    "newest_first": (newest_first, ".csv", 0.9),
    "spreadsheet": (spreadsheet, ".csv", 0.9),
    "codes": (codes, ".csv", 0.9),
    "counts": (counts, ".csv", 0.3),
    "five_rows": (five_rows, ".csv", None),
    "comments": (comments, ".txt", 0.9),
    "json_array": (json_array, ".json", 0.9),
    "carriage_returns": (carriage_returns, ".csv", 0.9),
}


def write(name, folder):
    """Write the file of a kind into a folder; return its path."""
    make, ending, _ = KINDS[name]
    path = folder / f"{name}{ending}"
    make(path)
    return path
