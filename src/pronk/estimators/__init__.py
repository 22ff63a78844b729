"""The scikit-learn interface: input, labels, several classes and outputs, files, the registry."""
