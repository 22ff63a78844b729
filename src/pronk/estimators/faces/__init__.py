"""scikit-learn's face of every learner: input, labels, one pass, save and load."""
