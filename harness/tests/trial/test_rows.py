# SPDX-License-Identifier: Apache-2.0
"""What of a trial gets into the store, and its console log into a file."""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness_builders import campaign_row, recovery, spec, text_fault
from riobed.crash.formats import Complaints, Crash
from riobed.faults import Fault
from riobed.guest import CacheUse
from riobed.plan.rounds import plan
from riobed.trial import TrialRecord, fault_row, name_callers, trial_row, write_log
from riobed.trial.observe.evidence import read_evidence
from riobed.trial.observe.progress import Progress
from riobed.trial.observe.watch import Observation
from riobed.trial.rows import cache_shares
from riobed.trial.verdict import Verdict
from riobed.vm import CanaryHits
from riobed_results.store import CheckReport, TrialRow, open_store, trial_rows

PLANNED = next(plan(spec(fresh_boot_share=1.0)))
EVIDENCE = b"I 0 1000000000\nI 1 1000000000\nI 2 1000000000\n"
EVIDENCE += b"A 1 3500000000\nA 0 1250000000\nO 2 memcpy to_user 64 3 1a 2b\n"


def crashed() -> TrialRecord:
    return TrialRecord(
        PLANNED,
        [text_fault(0), text_fault(1), text_fault(2, probe=False), text_fault(3)],
        phases={"restore": 0.1},
        progress=Progress(1, done=41, intent=42),
        evidence=read_evidence(EVIDENCE),
        observation=Observation("hang", Crash("hang", "hang in iput"), 7.12345, "exit 4", "agent lost"),
        recovery=recovery(),
        check=CheckReport(equal=False),
        verdict=Verdict("hang", "hang", "hang in iput", "unclassified", "cache"),
    )


class Rows:
    """A store with a campaign."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(str(folder / "store.sqlite"), create=True)
        self.campaign = self.store.add_campaign(campaign_row()).id

    def stored(self, record: TrialRecord, error: str = "", attempt: int = 1) -> TrialRow:
        """A trial's row as it is read back; the schema has had its say."""
        now = "2026-01-02T03:04:05.000+00:00"
        self.store.add_trial(trial_row(record, self.campaign, attempt, now, error))
        return trial_rows(self.store, self.campaign)[-1]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


def test_a_recovery_that_left_something_in_memory_is_told(rows: Rows) -> None:
    record = crashed()
    record.recovery = recovery(complete=False, data={"failed": 3})
    assert "recovery incomplete: 0 blocks and 3 pages" in rows.stored(record).detail


def test_a_crash(rows: Rows) -> None:
    row = rows.stored(crashed(), attempt=2)
    assert (row.position, row.attempt, row.mode, row.fault_class) == (0, 2, "rio", "kernel_text")
    assert (row.seed, row.started, row.fresh_boot) == (PLANNED.seed, "2026-01-02T03:04:05.000+00:00", True)
    assert (row.outcome, row.crash_kind, row.crash_title) == ("hang", "hang", "hang in iput")
    assert (row.corruption, row.corruption_where) == ("unclassified", "cache")
    assert (row.workload_status, row.detail, row.time_to_crash_s) == ("exit 4", "agent lost", 7.123)
    assert (row.requested, row.injected, row.activated, row.first_activation_s) == (4, 3, 2, 0.25)
    assert (row.steps_done, row.phases, row.log_damage) == (41, {"restore": 0.1}, None)
    assert (row.recovery, row.check) == (recovery(), CheckReport(equal=False))
    assert row.started < row.finished
    assert [fault.index for fault in row.faults] == [0, 1, 2, 3]


def test_a_damaged_log_is_told_in_the_row(rows: Rows) -> None:
    record = crashed()
    crash = Crash("hang", "hang in iput", "no end, garbage")
    record.observation = Observation("hang", crash, 7.0, "running", "lost")
    row = rows.stored(record)
    assert (row.log_damage, row.detail) == ("no end, garbage", "lost")


@pytest.mark.parametrize(("hits", "stored"), [
    (None, (None, None)), (CanaryHits(), (0, None)), (CanaryHits(2, 1 << 33), (2, 1 << 33))
])  # fmt: skip
def test_what_hit_the_canary_is_stored(rows: Rows, hits: CanaryHits | None, stored: tuple[Any, Any]) -> None:
    record = crashed()
    record.canary = hits
    row = rows.stored(record)
    assert (row.canary_hits, row.canary_offset) == stored


def test_what_is_known_without_asking_the_guest(rows: Rows) -> None:
    record = crashed()
    record.worker, record.snapshot, record.boot, record.crash_guest_s = "w0-rio", "feed", "beef", 9.5
    record.steps_at_injection, record.steal_s = 30, 0.12345
    assert record.observation
    record.observation = replace(record.observation, steps_after_fault=7)
    error: Any = "EIO"
    record.progress.error, record.progress.errors = "EIO write", [error] * 3
    row = rows.stored(record)
    assert (row.worker, row.snapshot, row.boot) == ("w0-rio", "feed", "beef")
    assert (row.steps_at_injection, row.steps_done, row.steps_after_fault) == (30, 41, 7)
    assert row.steal_s == 0.123
    assert (row.injection_guest_s, row.crash_guest_s) == (1.0, 9.5)
    assert (row.workload_status, row.workload_error, row.workload_errors) == ("exit 4", "EIO write", 3)


def test_the_registry_knows_best_what_was_in_memory() -> None:
    record = crashed()
    assert cache_shares(record) == (None, None)
    record.cache = CacheUse(0.31, 0.02)
    assert cache_shares(record) == (0.31, 0.02)
    record.recovery = recovery(entries={"entries": 1000, "free": 400, "clean": 50, "dirty_data": 500})
    row = trial_row(record, 1, 1, "", "")
    assert (row.cache_share, row.dirty_share) == (0.6, 0.5)


@pytest.mark.parametrize(
    ("said", "where", "lost"),
    [
        ({}, None, (None, None, None)),
        ({"files_lost": 0, "bytes_lost": 0, "files_expected": 9}, None, (0, 0, False)),
        ({"files_lost": 9, "bytes_lost": 1 << 40, "files_expected": 9}, None, (9, 1 << 40, True)),
        ({"files_lost": -1, "bytes_lost": 1 << 63, "files_expected": "9"}, None, (None, None, None)),
        # Nobody could count.
        (None, "disk", (None, None, True)),
    ],
)
def test_severity(rows: Rows, said: dict[str, Any] | None, where: Any, lost: tuple[Any, ...]) -> None:
    record = crashed()
    record.verdict = Verdict("hang", "hang", "hang in iput", "unclassified", where)
    record.check = None if said is None else CheckReport.model_validate({"equal": False} | said)
    row = rows.stored(record)
    assert (row.files_lost, row.bytes_lost, row.total_loss) == lost


@pytest.mark.parametrize("verdict", [None, Verdict("hang", "hang", "hang in iput", "none")])
def test_an_infra_error_is_never_a_result(rows: Rows, verdict: Verdict | None) -> None:
    assert rows.stored(TrialRecord(PLANNED, [])).outcome == "infra_error"
    record = crashed()
    record.verdict = verdict
    row = rows.stored(record, "QEMU died", attempt=2)
    assert (row.outcome, row.crash_kind, row.crash_title, row.corruption) == ("infra_error", None, None, None)
    assert (row.detail, row.time_to_crash_s) == ("QEMU died", None)
    assert rows.store.complete_positions(rows.campaign) == set()


def test_a_record_cut_short_at_its_start(rows: Rows) -> None:
    row = rows.stored(TrialRecord(PLANNED, [text_fault(0)]), "no snapshot")
    assert (row.requested, row.injected, row.activated, row.first_activation_s) == (1, 0, 0, None)
    assert (row.workload_status, row.recovery, row.check, row.steps_done) == (None, None, None, 0)


def test_evidence_of_faults_that_are_not_the_trials_is_not_counted(rows: Rows) -> None:
    evidence = read_evidence(EVIDENCE + b"I 700 1\nA 701 2\n")
    row = rows.stored(TrialRecord(PLANNED, [text_fault(0)], evidence=evidence))
    assert (row.requested, row.injected, row.activated) == (1, 1, 1)


def test_activation_that_cannot_be_seen_is_unknown() -> None:
    evidence = read_evidence(EVIDENCE)
    rows = [fault_row(fault, evidence) for fault in crashed().faults]
    assert [row.injected for row in rows] == [True, True, True, False]
    assert [row.activated for row in rows] == [True, True, None, False]
    assert [row.activated_s for row in rows] == [0.25, 2.5, None, None]
    assert fault_row(text_fault(1, probe=False), evidence).activated is True


def test_a_faults_bytes_and_place() -> None:
    row = fault_row(text_fault(1), read_evidence(b""))
    assert (row.address, row.function) == ("0xffffffff81000001", "vfs_read")
    assert (row.old, row.new) == ("4889e5", "4889e4")
    hit = {"routine": "memcpy", "direction": "to_user", "length": 64, "extra": 3, "to": "1a", "caller": "2b"}
    assert fault_row(text_fault(2), read_evidence(EVIDENCE)).params == hit


def test_a_return_address_gets_its_symbol() -> None:
    row = trial_row(crashed(), 1, 1, "", "")
    asked = {0x2B: "ext4_write+0x3"}
    name_callers(row.faults, asked.get)
    assert {key: value for key, value in row.faults[2].params.items() if "caller" in key} == {
        "caller": "2b",
        "caller_symbol": "ext4_write+0x3",
    }
    # Another address, of data, is not asked for; nor is one named that is in no function.
    row = trial_row(crashed(), 1, 1, "", "")
    name_callers(row.faults, {0x1A: "jiffies+0x0"}.get)
    assert row.faults[2].params == fault_row(text_fault(2), read_evidence(EVIDENCE)).params


def test_what_the_kernel_outlived_is_stored(rows: Rows) -> None:
    record = crashed()
    row = rows.stored(record)
    assert (row.complaints, row.first_complaint, row.complained) == (None, None, None)
    record.complaints = Complaints(2, "warning in iput")
    row = trial_row(record, 1, 1, "", "")
    assert (row.complaints, row.first_complaint, row.complained) == (2, "warning in iput", True)
    record.complaints = Complaints(0, None)
    assert trial_row(record, 1, 1, "", "").complained is False


def test_a_flip_that_was_overwritten_was_seen_and_not_used() -> None:
    log = b"I 0 1000000000\nH 0 slab dentry 192 17 3 ffff88800b01a737\nW 0 1500000000\n"
    row = fault_row(Fault(0, "kernel_heap", params={"seed": 7}), read_evidence(log))
    assert (row.activated, row.activated_s, row.address) == (False, None, None)
    hit = {"kind": "slab", "name": "dentry", "size": 192, "offset": 17, "bit": 3}
    assert row.params == {"seed": 7, **hit, "address": "ffff88800b01a737", "overwritten_s": 0.5}


def test_of_a_flip_in_a_page_table_only_its_use_is_known() -> None:
    log = b"I 0 1\nH 0 page_table kernel 4096 8 3 ffff88800b01a008\nI 1 1\nH 1 percpu cpu0 9 8 3 ffff\n"
    faults = [Fault(index, "kernel_heap") for index in range(2)]
    assert [fault_row(each, read_evidence(log)).activated for each in faults] == [None, False]
    assert fault_row(faults[0], read_evidence(log + b"A 0 5\n")).activated is True


def test_logs_are_kept_compressed_under_the_trials_name(tmp_path: Path) -> None:
    row = trial_row(crashed(), 1, 2, "now", "")
    console = bytes(range(256)) * 100
    name = write_log(tmp_path / "campaigns" / "logs", row, console)
    assert name == "logs/1-00000-2-rio-kernel_text.log.gz"
    path = tmp_path / "campaigns" / name
    assert gzip.decompress(path.read_bytes()) == console
    assert list(path.parent.iterdir()) == [path]
    # RFC 1952: no time stamp in the header, so that equal logs are equal files.
    assert path.read_bytes()[4:8] == bytes(4)

    # An empty one is no file.
    assert write_log(tmp_path / "none", row, b"") is None
    assert not (tmp_path / "none").exists()
