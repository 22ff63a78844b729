"""The default learner: a grid of experts on one dictionary, their mixture, their calibration."""
