"""Tools for developers: mutation testing, fingerprints, coverage of compiled code."""
