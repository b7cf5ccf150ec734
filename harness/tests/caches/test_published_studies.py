# SPDX-License-Identifier: Apache-2.0
"""Rows of published studies come out of their traces again, recorded or generated."""

import json
from collections import Counter
from pathlib import Path

import pytest
from publishing.claims.caches import BOUNDS_FILE
from riobed_caches.generator.generate import generate
from riobed_caches.rowfiles import read_rows
from riobed_caches.rows import Row
from riobed_caches.study.prepare import Options
from riobed_caches.study.run import KINDS, rows_of
from riobed_caches.trace.file import read_trace, write_trace
from riobed_caches.trace.show import show
from riobed_results.tables.caches.grids import read_study
from riobed_results.tables.caches.papers import FITTED, points
from tools.trace_bounds import bounds
from tools.trace_costs import load, misses_of, references, references_alone, same_choices, same_misses

PUBLISHED = Path(__file__).resolve().parents[3] / "results/published"


def comparable(row: Row) -> dict[str, object]:
    """A row; sums of floats may differ in their last digits between machines."""
    return {k: pytest.approx(v) if isinstance(v, float) else v for k, v in row.model_dump().items()}


def same_rows(path: Path, study: Path) -> None:
    found = rows_of(path, Options())
    for kind in KINDS:
        kept = [row.model_dump() for row in read_rows(study, kind) if row.trace == path.stem]
        assert kept == [comparable(row) for row in found if isinstance(row, kind)]
    least = json.loads((study / BOUNDS_FILE).read_text())
    assert bounds(path) == [bound for bound in least if bound["trace"] == path.stem]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["build", "database", "editor"])
def test_rows_of_recorded_work(name: str) -> None:
    same_rows(PUBLISHED / f"own/{name}.parquet", PUBLISHED / "own")


@pytest.mark.parametrize("name", ["build", "database", "editor"])
def test_a_recorded_event_takes_at_most_four_bytes(name: str) -> None:
    path = PUBLISHED / f"own/{name}.parquet"
    size = show(read_trace(path), path).bytes_an_event
    assert size is not None and size <= 4


def test_a_generated_event_takes_at_most_four_bytes(tmp_path: Path) -> None:
    path, trace = tmp_path / "day.parquet", generate(7, 1)
    write_trace(path, trace)
    assert path.stat().st_size <= 4 * len(trace)
    assert read_trace(path).sha256 == trace.sha256


def test_table_4_is_held_out() -> None:
    """On each day: 7.9 and 6.6 KB of data, which 4096 and 512 bytes of metadata and summary go with."""
    found = [point for point in points(read_study(PUBLISHED / "sprite")) if point.figure == "Table 4"]
    assert Counter(round(point.paper, 1) for point in found) == dict.fromkeys((7.9, 6.6, 36.3, 40.5), 8)
    assert not {"Table 3", "Table 4"} & set(FITTED)


@pytest.mark.slow
def test_misses_are_those_of_libcachesim(tmp_path: Path) -> None:
    """Of LRU at nine sizes, and of FIFO and Belady's policy at one; deletions are left out."""
    stream, blocks = load(PUBLISHED / "own/database.parquet"), tmp_path / "blocks"
    references(references_alone(stream).block).tofile(blocks)
    same_misses(stream, misses_of(blocks))
    same_choices(stream, blocks)


@pytest.mark.extended
@pytest.mark.parametrize("like", range(1, 9))
def test_rows_of_generated_days(like: int, tmp_path: Path) -> None:
    path = tmp_path / f"sprite-{like}.parquet"
    write_trace(path, generate(like, 1))
    same_rows(path, PUBLISHED / "sprite")
