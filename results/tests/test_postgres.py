# SPDX-License-Identifier: Apache-2.0
"""A store on a real PostgreSQL server holds what one on SQLite does, and refuses the same."""

import json
import threading
from pathlib import Path

import pytest
from results_builders import Invoke, campaign, faults, trial
from riobed_results.errors import StoreError
from riobed_results.store.location import locate
from riobed_results.store.models import TrialRow
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store, try_store


@pytest.fixture
def store(postgres: str) -> Store:
    return open_store(postgres, create=True)


def test_a_row_comes_back_as_it_went_in(store: Store, postgres: str) -> None:
    added = store.add_campaign(campaign())
    row = trial(
        added.id,
        4,
        fault_class="copy_overrun",
        corruption="direct",
        corruption_where="cache",
        requested=20,
        first_activation_s=0.1,
        time_to_crash_s=1.25,
        fresh_boot=True,
        recovery={"restored": 17, "said": "NUL \0, lone \udcff"},
        phases={"restore": 0.1},
        faults=faults(20),
    )
    row.faults[2].activated = None
    store.add_trial(row)
    (read,) = trial_rows(open_store(postgres), added.id)
    for column in TrialRow.__table__.columns:
        assert getattr(read, column.key) == getattr(row, column.key), column.key
    assert read.faults == row.faults
    assert [fault.activated for fault in read.faults[:3]] == [True, False, None]


def test_text_of_a_dying_guest_is_kept(store: Store) -> None:
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0, crash_title="a\0b \udcff \x1b[31m é", detail="π"))
    (row,) = trial_rows(store, added.id)
    assert (row.crash_title, row.detail) == ("a\\x00b \\udcff \x1b[31m é", "π")


@pytest.mark.parametrize(
    ("outcome", "fields", "constraint"),
    [
        ("crashed", {}, "known_outcome|only_crashes"),
        ("crash", {"crash_kind": None}, "only_crashes_have_a_kind"),
        ("discard", {"corruption": "none"}, "only_crashes_are_judged"),
        ("crash", {"corruption_where": "cache"}, "only_corruption_has_a_place"),
        ("crash", {"campaign_id": 99}, "foreign key"),
        ("crash", {"position": 0, "attempt": 2}, "one_result_per_position"),
        ("infra_error", {"position": 0}, "one_row_per_attempt"),
    ],
)
def test_the_schema_refuses_rows_that_would_be_miscounted(
    store: Store, outcome: str, fields: dict[str, object], constraint: str
) -> None:
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0))
    with pytest.raises(StoreError, match=constraint) as caught:
        store.add_trial(trial(**{"campaign_id": added.id, "position": 1, "outcome": outcome} | fields))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert [row.position for row in trial_rows(store, added.id)] == [0]


def test_infra_errors_and_the_result_of_one_position(store: Store) -> None:
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 2, "infra_error"))
    store.add_trial(trial(added.id, 2, "infra_error", attempt=2))
    assert (store.complete_positions(added.id), store.next_attempt(added.id, 2)) == (set(), 3)
    store.add_trial(trial(added.id, 2, "discard", attempt=3))
    assert store.complete_positions(added.id) == {2}


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


def test_tables_report_and_publication(store: Store, postgres: str, invoke: Invoke, tmp_path: Path) -> None:
    added = store.add_campaign(campaign("first", ["rio", "delayed"], ["kernel_text"]))
    for position, mode in enumerate(["rio", "delayed"] * 3):
        corruption = "indirect" if mode == "delayed" else "none"
        store.add_trial(
            trial(added.id, position, mode=mode, seed=f"7/{position // 2}", corruption=corruption)
        )
    done = invoke("table", "corruption", "--store", postgres, "--format", "json")
    assert done.exit_code == 0, done.output
    totals = json.loads(done.stdout)["totals"]
    assert [totals[mode]["corrupted"] for mode in ("rio", "delayed")] == [0, 3]
    done = invoke("report", "--store", postgres, "--output", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert "kernel_text" in (tmp_path / "report.html").read_text()
    done = invoke("publish", tmp_path / "published", "--store", postgres)
    assert done.exit_code == 0, done.output
    copied = trial_rows(open_store(str(tmp_path / "published")), 1)
    assert [row.position for row in copied] == list(range(6))
