# SPDX-License-Identifier: Apache-2.0
"""A store on a real PostgreSQL server: what test_store.py does not ask of every store."""

import json
import threading
from pathlib import Path

import pytest
from results_builders import Invoke, campaign, faults, fill, trial
from riobed_results.errors import StoreError
from riobed_results.store.location import locate
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store, try_store


@pytest.fixture
def store(postgres: str) -> Store:
    return open_store(postgres, create=True)


def test_a_reader_writes_nothing(store: Store, postgres: str) -> None:
    added = store.add_campaign(campaign())
    with pytest.raises(StoreError, match="read-only transaction"):
        open_store(postgres).add_trial(trial(added.id, 0))
    with pytest.raises(StoreError, match="is not a riobed store"):
        open_store(postgres.rpartition("/")[0] + "/postgres")


def test_two_that_add_the_same_position_count_it_once(store: Store) -> None:
    """Two runs of one campaign, which nobody should start: the database decides."""
    added = store.add_campaign(campaign())
    both, refused = threading.Barrier(2), []

    def add(attempt: int) -> None:
        both.wait()
        try:
            store.add_trial(trial(added.id, 0, attempt=attempt, faults=faults(20)))
        except StoreError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=add, args=(attempt,)) for attempt in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1 and "one_result_per_position" in refused[0]
    assert [len(row.faults) for row in trial_rows(store, added.id)] == [20]


def test_no_message_shows_the_password(postgres: str) -> None:
    assert locate(postgres).name.count("***") == 1
    password = postgres.split(":")[2].partition("@")[0]
    for wrong in (postgres + "nowhere", postgres.replace(password, "wrong" + password)):
        with pytest.raises(StoreError) as caught:
            try_store(wrong)
        assert password not in str(caught.value) and "\n" not in str(caught.value)


def test_tables_report_and_publication(
    store: Store, postgres: str, invoke: Invoke, publishing: Invoke, tmp_path: Path
) -> None:
    rows = [{"mode": "rio"}, {"mode": "delayed", "corruption": "indirect"}] * 3
    fill(store, *rows, modes=["rio", "delayed"], classes=["kernel_text"])

    def call(*arguments: object, of: Invoke = invoke) -> str:
        done = of(*arguments, "--store", postgres)
        assert done.exit_code == 0, done.output
        return str(done.stdout)

    totals = json.loads(call("table", "corruption", "--format", "json"))["totals"]
    assert [totals[mode]["corrupted"] for mode in ("rio", "delayed")] == [0, 3]
    call("report", "--output", tmp_path / "report.html")
    assert "kernel_text" in (tmp_path / "report.html").read_text()
    call("publish", tmp_path / "published", of=publishing)
    copied = trial_rows(open_store(str(tmp_path / "published")), 1)
    assert [row.position for row in copied] == list(range(6))
