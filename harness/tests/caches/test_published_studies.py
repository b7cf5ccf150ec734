# SPDX-License-Identifier: Apache-2.0
"""Rows of published studies come out of their traces again, recorded or generated."""

from pathlib import Path

import pytest
from riobed_caches.generator.generate import generate
from riobed_caches.rowfiles import read_rows
from riobed_caches.rows import Row
from riobed_caches.study.prepare import Options
from riobed_caches.study.run import KINDS, rows_of
from riobed_caches.trace.file import write_trace

PUBLISHED = Path(__file__).resolve().parents[3] / "results/published"


def comparable(row: Row) -> dict[str, object]:
    """A row; sums of floats may differ in their last digits between machines."""
    return {k: pytest.approx(v) if isinstance(v, float) else v for k, v in row.model_dump().items()}


def same_rows(path: Path, study: Path) -> None:
    found = rows_of(path, Options())
    for kind in KINDS:
        kept = [row.model_dump() for row in read_rows(study, kind) if row.trace == path.stem]
        assert kept == [comparable(row) for row in found if isinstance(row, kind)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["build", "database", "editor"])
def test_rows_of_recorded_work(name: str) -> None:
    same_rows(PUBLISHED / f"own/{name}.parquet", PUBLISHED / "own")


@pytest.mark.extended
@pytest.mark.parametrize("like", range(1, 9))
def test_rows_of_generated_days(like: int, tmp_path: Path) -> None:
    path = tmp_path / f"sprite-{like}.parquet"
    write_trace(path, generate(like, 1))
    same_rows(path, PUBLISHED / "sprite")
