"""The field's table: data sets, peers, measures and the page of `bench_default.py`."""
