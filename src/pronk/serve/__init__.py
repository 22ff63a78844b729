"""Predictions now, labels later, nothing lost: learners behind HTTP."""
