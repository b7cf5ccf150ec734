# SPDX-License-Identifier: Apache-2.0
"""The example of docs/notebook.md, and the names that it lists."""

import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from results_builders import fill
from riobed_results import StoreError, StoreUsageError, read_results, table, table_names, trials_table
from riobed_results.store.store import Store
from riobed_results.tables.registry import STUDY_TABLES

CHECKOUT = Path(__file__).parents[2]
INSTRUMENT = CHECKOUT / "results/published/instrument"


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("Agg")
    (script,) = re.findall(r"^```python\n(.*?)^```", (CHECKOUT / "docs/notebook.md").read_text(), re.M | re.S)
    (tmp_path / "results").symlink_to(CHECKOUT / "results")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(script, names)
    assert (tmp_path / "corruption.png").read_bytes().startswith(b"\x89PNG")
    trials = trials_table(names["results"])
    rows = trials.to_pylist()
    for rate, share in zip(names["rates"], names["shares"], strict=True):
        mine = [row for row in rows if row["mode"] == rate["mode"] and "corruption" in row["endpoints"]]
        assert share == sum("corruption" in row["endpoints_hit"] for row in mine) / len(mine)
    assert len(names["rates"]) == len(set(trials["mode"].to_pylist()))


def test_pandas_takes_the_trials(store: Store) -> None:
    rows = [{"mode": "rio"}, {"mode": "delayed", "corruption": "indirect"}]
    trials = trials_table(read_results_of(store, rows))
    assert hasattr(trials, "__arrow_c_stream__")  # what pandas, polars and others read
    frame = trials.to_pandas()
    assert frame.groupby("mode")["corruption"].apply(list).to_dict() == {
        "delayed": ["indirect"],
        "rio": ["none"],
    }


def read_results_of(store: Store, rows: list[dict[str, Any]]) -> Any:
    fill(store, *rows, modes=["rio", "delayed"], classes=["kernel_text"])
    return read_results(store)


def test_a_table_by_its_name_and_options(store: Store) -> None:
    results = read_results_of(store, [{"mode": "rio"}, {"mode": "delayed", "corruption": "indirect"}])
    wide, narrow = (
        table(results, "noninferiority", margin=margin, endpoint="judged").to_pylist()
        for margin in (99.0, 1.0)
    )
    assert [row["mode"] for row in wide] == ["rio", "delayed"]
    assert wide[0]["p"] != narrow[0]["p"]
    assert table(results, "corruption")["rio crashes"].to_pylist()[0] == 1
    with pytest.raises(StoreUsageError, match="margin 0"):
        table(results, "noninferiority", margin=0.0)


def test_a_table_that_is_none(store: Store) -> None:
    results = read_results_of(store, [{"mode": "rio"}])
    assert "corruption" in table_names(results) and table_names(Path()) == [
        "processors",
        "replays",
        "soak",
        "sweep",
        *(each.name for each in STUDY_TABLES),
    ]
    with pytest.raises(StoreUsageError, match="'moons': want one of corruption, "):
        table(results, "moons")
    with pytest.raises(StoreUsageError, match="'corruption': want one of processors, "):
        table(INSTRUMENT, "corruption")
    with pytest.raises(StoreUsageError, match="no option 'phase'; it has: margin, endpoint"):
        table(results, "noninferiority", phase=1)
    with pytest.raises(StoreError, match="no measured runs"):
        table(results, "performance")
