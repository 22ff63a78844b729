"""scikit-learn's face: input, labels, several classes and outputs, saving and loading."""
