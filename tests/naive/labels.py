"""How a classifier discovers its labels, row by row.

`scorer(X, targets)` stands for a learner that is linear in its targets (AWV,
ridge): it returns one prediction per row and target column, row t from the
targets of rows before t only.
"""

import numpy as np


def coded_classes(seen):
    """The classes with a place among the targets after the labels `seen`, in order.

    A lone 0, -1, 1 or bool brings its partner: that of 1 is -1. As soon as two
    labels have been seen, they are just the sorted labels. Predictions name the
    labels `seen` only.
    """
    distinct = sorted(set(seen))
    if len(distinct) == 1:
        (label,) = distinct
        if isinstance(label, (bool, np.bool_)):
            return [False, True]
        if not isinstance(label, str) and label in (-1, 0, 1):
            return [0, 1] if label == 0 else [-1, 1]
    return distinct


def target_columns(labels, classes):
    """+1 / -1 targets: one column (is it classes[1]?) up to two classes, else one column per class.

    A lone class counts as -1; rows of a label that is in no column are negative.
    """
    columns = classes if len(classes) > 2 else classes[1:2]
    targets = -np.ones((len(labels), max(len(columns), 1)))
    for j, name in enumerate(columns):
        targets[[label == name for label in labels], j] = 1.0
    return targets


def classifier_awv(X, labels, scorer, classes=None):
    """(predicted label of each row as a list, decision of one call over all rows).

    Row t knows the labels of rows before t (and `classes` if given). The decision
    is (n,) up to two classes, else (n, n_classes), in the classes known at the end.
    """
    labels = list(labels)
    given = [] if classes is None else list(classes)
    decisions = {}

    def decision(known):
        key = tuple(known)
        if key not in decisions:
            decisions[key] = scorer(X, target_columns(labels, known))
        return decisions[key]

    predicted = []
    for t in range(len(labels)):
        known = sorted(set(given + labels[:t]))
        if not known:
            predicted.append(None)
        elif len(known) == 1:
            predicted.append(known[0])
        elif len(known) == 2:
            predicted.append(known[1] if decision(known)[t, 0] >= 0 else known[0])
        else:
            predicted.append(known[int(np.argmax(decision(known)[t]))])
    final = decision(coded_classes(given + labels))
    return predicted, final[:, 0] if final.shape[1] == 1 else final
