"""One file an algorithm: idea, update, cost, reference, and a class that names its parts."""
