# SPDX-License-Identifier: Apache-2.0
"""What a published folder holds, and that its store gives the tables of the one it was published from."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from results_builders import Invoke, faults, fill
from riobed_results.errors import StoreError
from riobed_results.export.listing import trials_json
from riobed_results.store.logs import ARCHIVE, Logs
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store


@pytest.fixture
def filled(store: Store, path: Path) -> Store:
    fill(store, {"faults": faults(1)}, name="other")
    fields: list[dict[str, Any]] = [{}, {}, {"corruption": "unclassified"}, {"crash_kind": "hang"}]
    (path.parent / "logs").mkdir()
    for position, of_trial in enumerate(fields):
        log = f"logs/{position}.log.gz"
        (path.parent / log).write_bytes(gzip.compress(b"console %d" % position))
        of_trial |= {"faults": faults(2), "phases": {"check": 1.0}, "log": log}
    fields[3]["crash_title"] = "hang, agent lost"
    fill(store, *fields, name="wanted", modes=["rio"], classes=["kernel_text"])
    return store


def test_a_published_folder_is_complete(
    invoke: Invoke, publishing: Invoke, filled: Store, path: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "published" / "wanted"
    result = publishing("publish", folder, "--store", path)
    assert result.exit_code == 0, result.output
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert names == {"spec.yaml", "store.sqlite.xz", "claims.json", ARCHIVE}
    assert Logs(folder).members == {f"logs/{position}.log" for position in range(4)}
    assert Logs(folder).read("logs/2.log.gz") == b"console 2"
    copy = open_store(str(folder))
    assert [row.name for row in copy.campaigns()] == ["wanted"]
    mine, theirs = filled.campaign("wanted").id, copy.campaign().id
    assert [*trials_json("", trial_rows(copy, theirs))] == [*trials_json("", trial_rows(filled, mine))]
    assert invoke("report", "--store", folder).exit_code == 0
    assert f'<a href="{ARCHIVE}">2</a>' in (folder / "report.html").read_text()
    tables = [invoke("table", "corruption", "--store", place).stdout for place in (folder, path)]
    assert tables[0] == tables[1] != ""


def test_nothing_is_published_over_another_campaign(publishing: Invoke, filled: Store, path: Path) -> None:
    result = publishing("publish", path.parent / "new", "--store", path, "--campaign", "other")
    assert result.exit_code == 0, result.output
    result = publishing("publish", path.parent / "new", "--store", path)
    assert isinstance(result.exception, StoreError)
    assert "has a store.sqlite.xz already" in str(result.exception)


@pytest.mark.parametrize("log", ["logs/none.log.gz", "../secret", "/etc/passwd"])
def test_without_its_logs_nothing_is_published(
    publishing: Invoke, store: Store, path: Path, tmp_path: Path, log: str
) -> None:
    (path.parent.parent / "secret").write_text("not a log")
    fill(store, {"log": log})
    result = publishing("publish", tmp_path / "new", "--store", path)
    assert isinstance(result.exception, StoreError)
    assert "1 console logs are not there" in str(result.exception)
    assert not (tmp_path / "new").exists()
