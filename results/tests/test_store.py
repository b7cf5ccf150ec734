# SPDX-License-Identifier: Apache-2.0
"""The store keeps what it was given, refuses what tables would count wrongly, and survives its writer."""

import resource
import shutil
import signal
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from results_builders import FORK, campaign, faults, fill, in_child, trial
from riobed_results.errors import StoreError
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store
from riobed_results.store.trial import TrialRow


def test_a_row_comes_back_as_it_went_in(url: str) -> None:
    store = open_store(url, create=True)
    row = trial(
        store.add_campaign(campaign()).id,
        4,
        **{"fault_class": "copy_overrun", "corruption": "direct", "corruption_where": "cache"},
        **{"requested": 20, "injected": 20, "activated": 3, "steps_done": 812, "fresh_boot": True},
        **{"first_activation_s": 0.1, "time_to_crash_s": 1.25, "phases": {"restore": 0.1}},
        recovery={"entries": {"rejected": 2}, "restored": 17, "said": "NUL \0, lone \udcff"},
        check={"difference_count": 1},
        log="logs/4.zst",
        faults=faults(20),
    )
    row.faults[2].activated = None
    store.add_trial(row)
    (read,) = trial_rows(open_store(url), row.campaign_id)
    for column in TrialRow.__table__.columns:
        assert getattr(read, column.key) == getattr(row, column.key), column.key
    assert read.faults == row.faults and read.faults[19].address == "0xffffffff81000013"
    assert [fault.activated for fault in read.faults[:3]] == [True, False, None]


def test_faults_are_read_of_the_classes_asked_for(store: Store) -> None:
    pointer = {"fault_class": "pointer", "faults": faults(3, "pointer")}
    campaign_id = fill(store, {"faults": faults(2)}, pointer).campaign.id
    _, read = trial_rows(store, campaign_id, faults={"pointer"})
    assert len(read.faults) == 3


def test_the_latest_campaign_is_the_default_and_names_are_unique(store: Store) -> None:
    store.add_campaign(campaign("first"))
    second = store.add_campaign(campaign("second"))
    assert (store.campaign().id, store.campaign("first").name) == (second.id, "first")
    with pytest.raises(StoreError, match=r"UNIQUE.*name"):
        store.add_campaign(campaign("first"))
    assert len(store.campaigns()) == 2


def test_positions_and_attempts(url: str) -> None:
    store = open_store(url, create=True)
    one, other = store.add_campaign(campaign("one")).id, store.add_campaign(campaign("other")).id
    store.add_trial(trial(one, 0))
    store.add_trial(trial(one, 1, "infra_error"))
    store.add_trial(trial(one, 2, "infra_error"))
    store.add_trial(trial(one, 2, "survived", attempt=2))
    store.add_trial(trial(other, 3))
    assert store.complete_positions(one) == {0, 2}
    assert [store.next_attempt(one, position) for position in range(4)] == [2, 2, 3, 1]


# Outcome and fields of a row that tables would count wrongly, and what the database says of it.
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("crashed", {}, "known_outcome|only_judged"),
    ("panic", {"crash_kind": "smoke"}, "known_crash_kind"),
    ("panic", {"crash_kind": None}, "only_judged_have_a_kind"),
    ("panic", {"corruption": None}, "only_judged_have_a_verdict"),
    ("panic", {"corruption": "some"}, "known_corruption"),
    ("panic", {"corruption_where": "cache"}, "only_corruption_has_a_place"),
    ("panic", {"corruption": "direct", "corruption_where": "tape"}, "known_corruption_where"),
    ("survived", {"corruption": None}, "only_judged_have_a_verdict"),
    ("discard", {"crash_kind": "panic"}, "only_judged_have_a_kind"),
    ("discard", {"corruption": "none"}, "only_judged_have_a_verdict"),
    ("discard", {"corruption_where": "disk"}, "only_corruption_has_a_place"),
    ("infra_error", {"corruption": "direct"}, "only_judged_have_a_verdict"),
    ("panic", {"campaign_id": 99}, "(?i)foreign key"),
    ("panic", {"position": 0, "attempt": 2}, "(?i)unique"),
    ("survived", {"position": 0, "attempt": 2}, "(?i)unique"),
    ("infra_error", {"position": 0}, "(?i)unique"),
]


def test_the_schema_refuses_rows_that_would_be_miscounted(url: str) -> None:
    store = open_store(url, create=True)
    campaign_id = store.add_campaign(campaign()).id
    store.add_trial(trial(campaign_id, 0))
    for outcome, fields, constraint in REFUSED:
        row = {"campaign_id": campaign_id, "position": 1, "outcome": outcome} | fields
        with pytest.raises(StoreError, match=constraint) as caught:
            store.add_trial(trial(**row))
        assert "\n" not in str(caught.value)
        assert [row.position for row in trial_rows(store, campaign_id)] == [0]


def test_a_refused_fault_takes_its_trial_with_it(store: Store) -> None:
    added = store.add_campaign(campaign())
    with pytest.raises(StoreError, match="UNIQUE"):
        store.add_trial(trial(added.id, 0, faults=faults(2) + faults(1)))
    assert trial_rows(store, added.id) == []
    assert store.complete_positions(added.id) == set()


def test_text_of_a_dying_guest_is_kept(url: str) -> None:
    store = open_store(url, create=True)
    added = store.add_campaign(campaign())
    store.add_trial(trial(added.id, 0, crash_title="a\0b \udcff \x1b[31m é", detail="π"))
    (row,) = trial_rows(store, added.id)
    assert (row.crash_title, row.detail) == ("a\\x00b \\udcff \x1b[31m é", "π")


@pytest.mark.parametrize("report", ['{"mount_error": 0}', "[]", '"text"'])
def test_a_report_of_a_wrong_shape_is_told_in_one_line(store: Store, path: Path, report: str) -> None:
    campaign_id = fill(store, {}).campaign.id
    with sqlite3.connect(path) as database:
        database.execute("UPDATE trials SET recovery = ?", (report,))
    with pytest.raises(StoreError, match="malformed: RecoveryReport") as caught:
        trial_rows(store, campaign_id)
    assert "\n" not in str(caught.value)


def test_odd_file_names(tmp_path: Path) -> None:
    for name in ("a b?mode=ro#x%41.sqlite", "ü.sqlite", "deep/er/folder"):
        path = tmp_path / name
        open_store(str(path), create=True).add_campaign(campaign(name))
        assert (path if path.suffix else path / "store.sqlite").is_file()
        assert open_store(str(path)).campaign().name == name


def test_reading_changes_nothing(store: Store, path: Path) -> None:
    campaign_id = fill(store, {}).campaign.id
    before = path.read_bytes(), path.stat().st_mtime_ns
    reader = open_store(str(path))
    assert len(trial_rows(reader, campaign_id)) == 1
    with pytest.raises(StoreError, match="may not be written"):
        reader.add_trial(trial(campaign_id, 1))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(path.parent.iterdir()) == [path]


def hang_in_a_row(path: Path, campaign_id: int, ready: Connection) -> None:
    with open_store(str(path), create=True).session() as session:
        # So small a cache makes SQLite write to the file itself before the commit.
        session.connection().exec_driver_sql("PRAGMA cache_size=1")
        session.add(trial(campaign_id, 1, faults=faults(3000)))
        session.flush()
        ready.send(None)
        time.sleep(60)


def kill_a_writer_in_a_row(path: Path, campaign_id: int) -> None:
    """Leave `path` half written, with the journal to undo it beside it."""
    before = path.read_bytes()
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=hang_in_a_row, args=(path, campaign_id, sender))
    process.start()
    receiver.recv()
    process.kill()
    process.join()
    assert path.read_bytes() != before
    assert path.with_name(path.name + "-journal").stat().st_size > 0


def test_a_writer_killed_in_a_row_loses_only_that_row(store: Store, path: Path) -> None:
    campaign_id = fill(store, {"faults": faults(20)}).campaign.id
    kill_a_writer_in_a_row(path, campaign_id)
    (row,) = trial_rows(open_store(str(path)), campaign_id)
    assert (row.position, len(row.faults)) == (0, 20)
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    writer = open_store(str(path), create=True)
    assert writer.next_attempt(campaign_id, 1) == 1
    writer.add_trial(trial(campaign_id, 1, faults=faults(20)))
    assert writer.complete_positions(campaign_id) == {0, 1}


def add(path: Path, campaign_id: int, count: int) -> None:
    store = open_store(str(path), create=True)
    for position in range(count):
        store.add_trial(trial(campaign_id, position, faults=faults(20)))


def test_a_row_is_flushed_before_it_counts_as_stored(store: Store) -> None:
    pragmas = ("PRAGMA synchronous", "PRAGMA journal_mode")
    with store.session() as session:
        asked = [session.connection().exec_driver_sql(pragma).scalar() for pragma in pragmas]
    # 3 is EXTRA (sqlite.org/pragma.html).
    assert asked == [3, "delete"]


def test_reading_while_others_write(store: Store, path: Path) -> None:
    campaigns = [store.add_campaign(campaign(name)) for name in ("one", "two")]
    processes = [FORK.Process(target=add, args=(path, c.id, 30)) for c in campaigns]
    for process in processes:
        process.start()
    seen = [0]
    # The lock is not fair: one writer may end before the other begins.
    while any(process.is_alive() for process in processes):
        rows = [trial_rows(open_store(str(path)), c.id) for c in campaigns]
        assert all(len(row.faults) == 20 for of_one in rows for row in of_one)
        seen.append(sum(map(len, rows)))
    assert [process.exitcode for process in processes] == [0, 0]
    assert seen == sorted(seen)
    assert len(set(seen)) > 1, "nothing was read while it was written"
    assert [len(trial_rows(store, c.id)) for c in campaigns] == [30, 30]


def out_of_room(path: Path, campaign_id: int) -> str:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        open_store(str(path), create=True).add_trial(trial(campaign_id, 1, faults=faults(3000)))
    except StoreError as error:
        return str(error)
    return "no error"


def test_no_room_for_a_row(store: Store, path: Path) -> None:
    campaign_id = fill(store, {}).campaign.id
    said = in_child(lambda: out_of_room(path, campaign_id))
    assert "disk" in said and "\n" not in said
    assert open_store(str(path), create=True).complete_positions(campaign_id) == {0}


@pytest.fixture
def foreign_folder() -> Iterator[Path]:
    """A folder that a user who is not its owner can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def read_by_another(path: Path, campaign_id: int) -> str:
    """What one who may only read finds or is told."""

    def read() -> str:
        try:
            return str(sorted(open_store(str(path)).complete_positions(campaign_id)))
        except StoreError as error:
            return str(error)

    for file in path.parent.iterdir():
        file.chmod(0o444)
    path.parent.chmod(0o555)
    return in_child(read, root=False)


def test_a_store_that_may_only_be_read(foreign_folder: Path) -> None:
    path = foreign_folder / "store.sqlite"
    campaign_id = fill(open_store(str(path), create=True), {}).campaign.id
    assert read_by_another(path, campaign_id) == "[0]"


def test_a_half_written_store_that_may_only_be_read_is_not_believed(foreign_folder: Path) -> None:
    path = foreign_folder / "store.sqlite"
    campaign_id = open_store(str(path), create=True).add_campaign(campaign()).id
    kill_a_writer_in_a_row(path, campaign_id)
    said = read_by_another(path, campaign_id)
    assert said.startswith(f"store {path}: may not be written") and "-journal" in said
