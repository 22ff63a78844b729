"""What the default learner is compared with, row by row, each with its own defaults.

    arf, amf, hat    river's adaptive random forest, aggregated Mondrian forest, adaptive Hoeffding
                     tree, on standardised columns; categories are text to the classifiers arf and
                     hat, and columns like others to the rest
    linear           river's linear, logistic or softmax regression behind its standard scaler
    sgd, rff         scikit-learn's SGD on standardised columns, and on 300 random Fourier features
                     of them (RBFSampler, gamma 1/columns)
    knn              the mean, or the votes, of the 5 nearest of the last 1000 rows, standardised
    vw               Vowpal Wabbit, where installed: `pip install vowpalwabbit`
    srp, sgbt, soknl, fimtdd, moa-arf, moa-knn
                     CapyMOA's streaming random patches (labels), gradient boosted trees, SOKNL and
                     FIMT-DD (numbers), adaptive random forest of 100 trees, and the 3 nearest of
                     the last 1000 rows, where installed: `pip install capymoa`, which needs Java
                     and PyTorch
    last             the target or label before; no learner at all

Categories are columns of zeros and ones to all but the trees. A peer is a function of the data that
yields its prediction of each row before it learns it: a number, or probabilities by label.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from field.sets import Data

Peer = Callable[[Data], Iterator[Any]]


class Standard:
    """Running means and deviations of columns; a row is scaled by the rows up to itself."""

    def __init__(self, columns: int) -> None:
        self.rows, self.mean, self.squares = 0, np.zeros(columns), np.zeros(columns)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.rows += 1
        off = x - self.mean
        self.mean += off / self.rows
        self.squares += off * (x - self.mean)
        deviation = np.sqrt(self.squares / self.rows)
        return np.where(deviation > 0, (x - self.mean) / np.where(deviation > 0, deviation, 1), 0.0)


def river_model(name: str, labels: bool, classes: int) -> Any:
    from river import compose, forest, linear_model, preprocessing, tree

    if name == "linear":
        kind: Any = linear_model.LinearRegression
        if labels:
            kind = linear_model.LogisticRegression
            kind = kind if classes == 2 else linear_model.SoftmaxRegression
        return compose.Pipeline(preprocessing.StandardScaler(), kind())
    kinds = {
        "arf": (forest.ARFRegressor, forest.ARFClassifier),
        "amf": (forest.AMFRegressor, forest.AMFClassifier),
        "hat": (tree.HoeffdingAdaptiveTreeRegressor, tree.HoeffdingAdaptiveTreeClassifier),
    }
    return kinds[name][labels](seed=0)


def river(name: str) -> Peer:
    def walk(data: Data) -> Iterator[Any]:
        model = river_model(name, data.labels, len(np.unique(data.y)))
        X = data.wide if name == "linear" else data.X
        names = [f"x{j}" for j in range(X.shape[1])]
        text = list(data.categories) if data.labels and name in ("arf", "hat") else []
        scale = Standard(X.shape[1])
        for row, target in zip(X, data.y.tolist(), strict=True):
            scaled = row.tolist() if name == "linear" else scale(row).tolist()
            for j in text:
                scaled[j] = str(row[j])
            x = dict(zip(names, scaled, strict=True))
            yield model.predict_proba_one(x) if data.labels else (model.predict_one(x) or 0.0)
            model.learn_one(x, target)

    return walk


def sgd(features: bool) -> Peer:
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier, SGDRegressor

    def walk(data: Data) -> Iterator[Any]:
        X, classes = data.wide, np.unique(data.y)
        scale = Standard(X.shape[1])
        sampler = RBFSampler(gamma=1 / X.shape[1], n_components=300, random_state=0).fit(X[:2])
        model = SGDClassifier("log_loss", random_state=0) if data.labels else SGDRegressor()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for t, (row, target) in enumerate(zip(X, data.y, strict=True)):
                x = scale(row)[None]
                x = sampler.transform(x) if features else x
                if data.labels:
                    yield dict(zip(classes, model.predict_proba(x)[0], strict=True)) if t else {}
                    model.partial_fit(x, [target], classes)
                else:
                    yield float(model.predict(x)[0]) if t else 0.0
                    model.partial_fit(x, [target])

    return walk


def knn(data: Data, neighbours: int = 5, window: int = 1000) -> Iterator[Any]:
    X = data.wide
    scale, (n, columns) = Standard(X.shape[1]), X.shape
    held, targets = np.empty((window, columns)), np.empty(window, dtype=data.y.dtype)
    for t in range(n):
        scale(X[t])
        known = min(t, window)
        if not known:
            yield {} if data.labels else 0.0
        else:
            deviation = np.sqrt(scale.squares / scale.rows)
            off = (held[:known] - X[t]) / np.where(deviation > 0, deviation, np.inf)
            distance = np.einsum("ij,ij->i", off, off)
            k = min(neighbours, known)
            nearest = targets[np.argpartition(distance, k - 1)[:k]]
            if data.labels:
                votes, counts = np.unique(nearest, return_counts=True)
                yield dict(zip(votes.tolist(), (counts / k).tolist(), strict=True))
            else:
                yield float(nearest.mean())
        held[t % window], targets[t % window] = X[t], data.y[t]


def last(data: Data) -> Iterator[Any]:
    before: Any = {} if data.labels else 0.0
    for target in data.y.tolist():
        yield before
        before = {target: 1.0} if data.labels else target


def vw(data: Data) -> Iterator[Any]:
    from vowpalwabbit import Workspace

    classes = np.unique(data.y)
    options = "--quiet --random_seed 0"
    if data.labels:
        options += f" --oaa {len(classes)} --loss_function logistic --probabilities"
    workspace = Workspace(options)
    places = np.searchsorted(classes, data.y) + 1 if data.labels else data.y
    for row, target in zip(data.wide.tolist(), places.tolist(), strict=True):
        features = " ".join(f"{j}:{v:.9g}" for j, v in enumerate(row) if v)
        found = workspace.predict(f"| {features}")
        yield dict(zip(classes.tolist(), found, strict=True)) if data.labels else float(found)
        workspace.learn(f"{target} | {features}")
    workspace.finish()


#: Classes of CapyMOA for numbers and for labels.
CAPYMOA: dict[str, tuple[str | None, str | None]] = {
    "srp": (None, "StreamingRandomPatches"),
    "sgbt": ("StreamingGradientBoostedRegression", "StreamingGradientBoostedTrees"),
    "moa-arf": ("AdaptiveRandomForestRegressor", "AdaptiveRandomForestClassifier"),
    "moa-knn": ("KNNRegressor", "KNN"),
    "soknl": ("SOKNL", None),
    "fimtdd": ("FIMTDD", None),
}


def fits(peer: str, labels: bool) -> bool:
    """Whether a peer predicts labels, or numbers."""
    return CAPYMOA.get(peer, ("numbers", "labels"))[labels] is not None


def capymoa(name: str) -> Peer:
    def walk(data: Data) -> Iterator[Any]:
        from capymoa import classifier, core, regressor, stream

        columns = [*(f"x{j}" for j in range(data.X.shape[1])), "y"]
        kinds = {columns[j]: np.unique(data.X[:, j]) for j in data.categories}
        if data.labels:
            kinds["y"] = np.unique(data.y)
        texts = {column: [str(value) for value in kinds[column]] for column in kinds}
        schema = stream.Schema.from_custom(columns, "y", texts)
        row_of = core.LabeledInstance if data.labels else core.RegressionInstance
        kind: Any = CAPYMOA[name][data.labels]
        model = getattr(classifier if data.labels else regressor, kind)(schema, random_seed=0)
        X = data.X.copy()
        for j in data.categories:  # a category is its place in the schema's list
            X[:, j] = np.searchsorted(kinds[columns[j]], X[:, j])
        for x, target in zip(X, data.y, strict=True):
            row = row_of.from_array(schema, x, target)
            found = model.predict_proba(row) if data.labels else model.predict(row)
            yield dict(enumerate(() if found is None else found)) if data.labels else found or 0.0
            model.train(row)

    return walk


PEERS: dict[str, Peer] = {
    "last": last,
    "linear": river("linear"),
    "sgd": sgd(False),
    "rff": sgd(True),
    "vw": vw,
    "knn": knn,
    "hat": river("hat"),
    "amf": river("amf"),
    "arf": river("arf"),
    **{name: capymoa(name) for name in CAPYMOA},
}
NAMES = {
    "last": "last", "linear": "linear", "sgd": "SGD", "rff": "RFF", "vw": "VW", "knn": "kNN",
    "hat": "HAT", "amf": "AMF", "arf": "ARF", "srp": "SRP", "sgbt": "SGBT", "moa-arf": "ARF of MOA",
    "moa-knn": "kNN of MOA", "soknl": "SOKNL", "fimtdd": "FIMT-DD",
}  # fmt: skip
