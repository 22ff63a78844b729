"""One model per shop on Kafka, with Quix Streams: predict orders, learn when their labels arrive.

    pip install quixstreams
    python examples/kafka/orders.py localhost:9092

The topic `orders` has {"id", "price", "weather"} and the topic `sales` {"id", "sold"}, both with
the shop as key and with the same number of partitions. Predictions go to `predictions`.

Kafka holds the models: Quix Streams keeps bytes per key, backs them up in a changelog topic, and
with "exactly-once" commits them in one transaction with the offsets and the predictions. An order
waits inside the model of its shop until its label arrives. Two topics have no common order, so a
label may also come first; then it waits in the state beside the model.
"""

import sys
from typing import Any

import pronk

#: The model of a new shop; at most 1,000 orders per shop wait for their labels.
NEW = pronk.Pending(
    pronk.OnlineKernelRegressor(budget=32, experts="few", random_state=0).with_columns(
        ["price", "weather"], ["number", "category"]
    ),
    limit=1000,
)
#: Most labels per shop that wait for their orders.
MOST_EARLY = 1000


def handle(event: dict[str, Any], state: Any) -> dict[str, Any] | None:
    """Predict an order, or learn a label; ``state`` is that of the shop, from Quix Streams.

    Return the prediction of an order, None for a label.
    """
    name, model = str(event["id"]), state.get_bytes("model")
    early = state.get("early", {})
    found = None
    if "sold" in event:
        try:
            model, _ = pronk.step(model, None, [event["sold"]], ids=[name], new=NEW)
        except ValueError:  # the order is not there yet, or was learned before
            early[name] = event["sold"]
            state.set("early", dict(list(early.items())[-MOST_EARLY:]))
            return None
    else:
        row = {"price": event["price"], "weather": event["weather"]}
        try:
            model, predictions = pronk.step(model, [row], ids=[name], new=NEW)
        except ValueError:  # the order came before and waits, or the row has no meaning
            return {"id": event["id"], "prediction": _predicted(model, row)}
        found = {"id": event["id"], "prediction": float(predictions[0])}
        if name in early:
            model, _ = pronk.step(model, None, [early.pop(name)], ids=[name], new=NEW)
            state.set("early", early)
    state.set_bytes("model", model)
    return found


def _predicted(model: bytes | None, row: dict[str, Any]) -> float:
    return float(pronk.step(model, [row], new=NEW)[1][0])


def main(broker: str) -> None:
    """Run until stopped; a second process with the same group takes half of the partitions."""
    from quixstreams import Application

    app = Application(
        broker_address=broker,
        consumer_group="pronk",
        processing_guarantee="exactly-once",
        auto_offset_reset="earliest",
    )
    orders = app.dataframe(app.topic("orders", key_deserializer="str"))
    sales = app.dataframe(app.topic("sales", key_deserializer="str"))
    found = orders.concat(sales).apply(handle, stateful=True)
    found = found.filter(lambda prediction: prediction is not None)
    found.to_topic(app.topic("predictions", key_serializer="str"))
    app.run()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
