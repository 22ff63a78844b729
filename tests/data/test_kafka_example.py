"""`examples/kafka/orders.py` on recorded messages, with restarts and aborted transactions."""

import copy
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import pronk
from pronk.data.step import CACHE

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "orders.py"


class State(dict):
    """What Quix Streams gives a stateful function: values of JSON, and bytes, of one key."""

    def get_bytes(self, name, default=None):
        return self.get(name, default)

    def set_bytes(self, name, value):
        assert type(value) is bytes
        self[name] = value

    def set(self, name, value):
        self[name] = json.loads(json.dumps(value))


def messages(rows=120):
    """Return (shop, event) of both topics: labels up to 20 orders late, some of them early."""
    rng = np.random.default_rng(0)
    found = []
    for i in range(rows):
        shop, price, weather = f"shop {i % 3}", rng.uniform(1, 3), rng.choice(["sun", "rain"])
        order = {"id": i, "price": price, "weather": str(weather)}
        sold = 20 - 4 * price + 5 * (weather == "sun")
        found.append((i, shop, order))
        if i % 10:  # some labels never come
            found.append((i + rng.integers(-3, 20) + 0.5, shop, {"id": i, "sold": sold}))
    return [(shop, event) for _, shop, event in sorted(found, key=lambda one: one[0])]


def run(handle, events, restarts=()):
    """Return the predictions and states; at a restart the last event is aborted and comes again."""
    states, found = {}, {}
    for number, (shop, event) in enumerate(events):
        state = states.setdefault(shop, State())
        if number in restarts:
            handle(event, copy.deepcopy(state))
            CACHE.clear()
        given = handle(event, state)
        if given is not None:
            found[given["id"]] = given["prediction"]
        else:
            assert "sold" in event
    return found, states


def test_orders_are_predicted_and_labels_learned():
    example = runpy.run_path(str(EXAMPLE))
    handle, new = example["handle"], example["NEW"]
    events = messages()
    first = {event["id"]: place for place, (_, event) in reversed([*enumerate(events)])}
    early = [e["id"] for i, (_, e) in enumerate(events) if "sold" in e and i == first[e["id"]]]
    assert len(early) > 3
    found, states = run(handle, events)
    again, others = run(handle, events, restarts=range(0, len(events), 7))
    assert found == again and states == others and len(found) == 120
    for shop, state in states.items():
        alone = pronk.loads(pronk.step(None, None, [], ids=[], new=new)[0])
        labels, expected = {}, {}
        for _, event in (one for one in events if one[0] == shop):
            name = str(event["id"])
            if "sold" in event:
                labels[name] = event["sold"]
            else:
                row = [{"price": event["price"], "weather": event["weather"]}]
                expected[event["id"]] = alone.predict(row, [name])[0]
            if name in labels and name in alone.ids:
                alone.learn([name], [labels.pop(name)])
        assert expected == {name: found[name] for name in expected}
        assert state["model"] == pronk.dumps(alone) and not state.get("early")
    last = np.array([found[i] for i in range(90, 120)])
    true = {e["id"]: e["sold"] for _, e in events if "sold" in e}
    errors = [abs(found[i] - true[i]) for i in range(90, 120) if i in true]
    assert np.isfinite(last).all() and np.mean(errors) < 2.0


def test_an_order_and_a_label_that_come_twice_count_once():
    handle = runpy.run_path(str(EXAMPLE))["handle"]
    state = State()
    order = {"id": 1, "price": 2.0, "weather": "sun"}
    first = handle(order, state)
    waits = state["model"]
    assert handle(order, state) == first and state["model"] == waits
    with pytest.raises(ValueError, match="X has inf"):
        handle({"id": 2, "price": float("inf"), "weather": "sun"}, state)
    handle({"id": 1, "sold": 17.0}, state)
    learned = state["model"]
    handle({"id": 1, "sold": 17.0}, state)
    assert state["model"] == learned and pronk.loads(learned).model.n_seen_ == 1
