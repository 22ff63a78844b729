"""The default learner: experts on one dictionary, their mixture and its calibration."""
