"""Random requests: no 5xx, no request without an answer, no model that no longer works."""

from __future__ import annotations

import pytest
from fuzzing import Fuzz
from serving import Site


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_random_requests_are_answered_or_refused(site: Site, seed: int) -> None:
    fuzz = Fuzz(site.port, site.token, seed)
    fuzz.prepare()
    fuzz.run(300)
    fuzz.close()
    assert not fuzz.wrong, fuzz.wrong[:3]
    assert fuzz.counts["200"] > 60 and fuzz.counts["422"] > 60 and fuzz.counts["400"] > 20
