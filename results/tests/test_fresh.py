# SPDX-License-Identifier: Apache-2.0
"""A report is written while a block runs and once more at its end, by processes of its own."""

import time
from pathlib import Path

import pytest
from results_builders import campaign, trial
from riobed_results.report.live import FreshReport
from riobed_results.store.store import Store

REFRESH = '<meta http-equiv="refresh" content="1">'


def eventually(path: Path, text: str) -> bool:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if path.exists() and text in path.read_text():
            return True
        time.sleep(0.05)
    return False


def test_the_page_follows_the_store(store: Store, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("riobed_results.report.live.SHARE", 1.0)
    added = store.add_campaign(campaign("living", ["rio"], ["kernel_text"]))
    output = path.with_name("report.html")
    fresh = FreshReport(str(path), "living", path.parent, output, every_s=0.1)
    # A block that fails has its last page and its own error.
    with pytest.raises(ZeroDivisionError), fresh:
        assert eventually(output, "No trial has given a result yet.")
        assert REFRESH in output.read_text()
        store.add_trial(trial(added.id, 0, crash_title="died young"))
        assert eventually(output, "died young")
        store.add_trial(trial(added.id, 1, crash_title="died last"))
        raise ZeroDivisionError
    assert "died last" in output.read_text() and REFRESH not in output.read_text()
    assert fresh.error == ""


def test_a_report_that_cannot_be_made_is_told_in_one_line(path: Path, tmp_path: Path) -> None:
    fresh = FreshReport(str(path), "none", tmp_path, tmp_path / "report.html")
    with fresh:
        pass
    assert fresh.error.startswith(f"riobed: store {path}: no such file; ") and "\n" not in fresh.error
