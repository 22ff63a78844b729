"""Tools for those who work on the tests; nothing here is a test."""
