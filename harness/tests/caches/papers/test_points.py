# SPDX-License-Identifier: Apache-2.0
"""The points of the papers can be read, and agree with what the papers say of them."""

import numpy as np
import pytest
from riobed_caches.papers.points import figure, tables


def test_figures_have_their_curves():
    for number in (2, 3):
        assert set(figure(number)) == set("12345678")
    assert set(figure(4)) == {"omniscient", "LRU", "random"}
    assert set(figure(5)) == {"volatile", "unified", "write-aside"}
    assert len(figure(6)) == 4
    for number in range(2, 7):
        for curve in figure(number).values():
            assert (np.diff(curve.x) > 0).all() and (np.diff(curve.y) <= 0).all()
            assert curve.unit == ("minutes" if number == 2 else "MB")
    assert all(curve.y[0] == 100 for curve in figure(2).values())


def test_tables_agree_with_their_totals():
    for fates in tables().fates.values():
        parts = sum(getattr(fates, name) for name in type(fates).model_fields if name != "total")
        # More than all: a part of a block may cause the whole block to be written (000, Table 2).
        assert 1 <= parts / fates.total < 1.03
    for opens in (tables().opens_1989, tables().opens_1991):
        servers = sum(row.opens for name, row in opens.items() if name.isalpha() and name != "Combined")
        assert servers == pytest.approx(opens["Combined"].opens, rel=1e-4)
    assert sum(row.of_bytes for row in tables().segments.values()) == pytest.approx(100, abs=2)
    modes = (f"{mode}_percent" for mode in ("read_only", "write_only", "read_write"))
    assert sum(tables().sentences[mode].value for mode in modes) == pytest.approx(100)
