# SPDX-License-Identifier: Apache-2.0
"""What of a trial gets into the store, and its console log into a file."""

import gzip
from pathlib import Path

import pytest
from harness_builders import recovery, spec, text_fault
from riobed.crash.formats import Crash
from riobed.faults import Fault
from riobed.plan.rounds import plan
from riobed.trial.evidence import read_evidence
from riobed.trial.progress import Progress
from riobed.trial.record import TrialRecord
from riobed.trial.rows import fault_row, trial_row, write_log
from riobed.trial.verdict import Verdict
from riobed.trial.watch import Observation
from riobed_results.store.check_report import CheckReport
from riobed_results.store.models import CampaignRow, TrialRow
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import Store, open_store

PLANNED = next(plan(spec(fresh_boot_share=1.0)))
EVIDENCE = (
    b"I 0 1000000000\nI 1 1000000000\nI 2 1000000000\nA 1 3500000000\nA 0 1250000000\nO 2 memcpy 64 3\n"
)


def crashed() -> TrialRecord:
    return TrialRecord(
        PLANNED,
        [text_fault(0), text_fault(1), text_fault(2, probe=False), text_fault(3)],
        phases={"restore": 0.1},
        progress=Progress(1, done=41, intent=42),
        evidence=read_evidence(EVIDENCE),
        observation=Observation(Crash("hang", "hang in iput"), 7.12345, "exit 4", "agent lost"),
        recovery=recovery(),
        check=CheckReport(equal=False),
        verdict=Verdict("crash", "hang", "hang in iput", "unclassified", "cache"),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store.sqlite"), create=True)


def stored(store: Store, row: TrialRow) -> TrialRow:
    """The row as it is read back; the schema has had its say."""
    store.add_trial(row)
    return trial_rows(store, row.campaign_id)[-1]


@pytest.fixture
def campaign_id(store: Store) -> int:
    texts = dict.fromkeys(
        ("spec", "seed", "kernel_release", "kernel_build_id", "series_commit", "qemu_version", "accelerator"),
        "",
    )
    return store.add_campaign(CampaignRow(name="c", host={}, **texts)).id


def test_a_crash(store: Store, campaign_id: int) -> None:
    row = stored(store, trial_row(crashed(), campaign_id, 2, "2026-01-02T03:04:05.000+00:00", ""))
    assert (row.position, row.attempt, row.mode, row.fault_class) == (0, 2, "rio", "kernel_text")
    assert (row.seed, row.started, row.fresh_boot) == (PLANNED.seed, "2026-01-02T03:04:05.000+00:00", True)
    assert (row.outcome, row.crash_kind, row.crash_title) == ("crash", "hang", "hang in iput")
    assert (row.corruption, row.corruption_where) == ("unclassified", "cache")
    assert (row.workload_status, row.detail, row.time_to_crash_s) == ("exit 4", "agent lost", 7.123)
    assert (row.requested, row.injected, row.activated, row.first_activation_s) == (4, 3, 2, 0.25)
    assert (row.steps_done, row.phases) == (41, {"restore": 0.1})
    assert (row.recovery, row.check) == (recovery(), CheckReport(equal=False))
    assert row.started < row.finished
    assert [fault.index for fault in row.faults] == [0, 1, 2, 3]


@pytest.mark.parametrize(("damage", "told"), [("no end, garbage", "no end, garbage"), ("", None)])
def test_a_damaged_log_is_told_in_the_row(
    store: Store, campaign_id: int, damage: str, told: str | None
) -> None:
    record = crashed()
    record.observation = Observation(Crash("hang", "hang in iput", damage), 7.0, "running", "agent lost")
    row = stored(store, trial_row(record, campaign_id, 1, "now", ""))
    assert (row.log_damage, row.detail) == (told, "agent lost")


def test_a_discard(store: Store, campaign_id: int) -> None:
    record = crashed()
    record.observation = Observation(None, 600.0, "running")
    record.verdict, record.recovery, record.check = Verdict("discard"), None, None
    row = stored(store, trial_row(record, campaign_id, 1, "now", ""))
    assert (row.outcome, row.crash_kind, row.crash_title, row.corruption) == ("discard", None, None, None)
    assert (row.time_to_crash_s, row.detail, row.activated) == (None, "", 2)


@pytest.mark.parametrize("verdict", [None, Verdict("crash", "hang", "hang in iput", "none")])
def test_an_infra_error_is_never_a_result(store: Store, campaign_id: int, verdict: Verdict | None) -> None:
    record = crashed()
    record.verdict = verdict
    row = stored(store, trial_row(record, campaign_id, 1, "now", "QEMU died"))
    assert (row.outcome, row.crash_kind, row.crash_title, row.corruption) == ("infra_error", None, None, None)
    assert (row.detail, row.time_to_crash_s) == ("QEMU died", None)
    assert store.complete_positions(campaign_id) == set()


def test_a_record_cut_short_at_its_start(store: Store, campaign_id: int) -> None:
    record = TrialRecord(PLANNED, [text_fault(0)])
    row = stored(store, trial_row(record, campaign_id, 1, "now", "no snapshot"))
    assert (row.requested, row.injected, row.activated, row.first_activation_s) == (1, 0, 0, None)
    assert (row.workload_status, row.recovery, row.check, row.steps_done) == (None, None, None, 0)


def test_a_record_without_verdict_and_error_is_no_result(campaign_id: int) -> None:
    assert trial_row(TrialRecord(PLANNED, []), campaign_id, 1, "now", "").outcome == "infra_error"


def test_evidence_of_faults_that_are_not_the_trials_is_not_counted(campaign_id: int) -> None:
    record = TrialRecord(PLANNED, [text_fault(0)], evidence=read_evidence(EVIDENCE + b"I 700 1\nA 701 2\n"))
    row = trial_row(record, campaign_id, 1, "now", "x")
    assert (row.requested, row.injected, row.activated) == (1, 1, 1)


def test_activation_that_cannot_be_seen_is_unknown() -> None:
    evidence = read_evidence(EVIDENCE)
    rows = [fault_row(fault, evidence) for fault in crashed().faults]
    assert [row.injected for row in rows] == [True, True, True, False]
    assert [row.activated for row in rows] == [True, True, None, False]
    assert [row.activated_s for row in rows] == [0.25, 2.5, None, None]
    seen = fault_row(text_fault(1, probe=False), evidence)
    assert seen.activated is True


def test_a_faults_bytes_and_place() -> None:
    row = fault_row(text_fault(1), read_evidence(b""))
    assert (row.address, row.function, row.old, row.new) == (
        "0xffffffff81000001",
        "vfs_read",
        "4889e5",
        "4889e4",
    )
    assert fault_row(text_fault(2), read_evidence(EVIDENCE)).params == {
        "routine": "memcpy",
        "length": 64,
        "extra": 3,
    }


def test_a_flip_that_was_overwritten_was_seen_and_not_used() -> None:
    log = b"I 0 1000000000\nH 0 dentry 192 17 3 ffff88800b01a737\nW 0 1500000000\n"
    row = fault_row(Fault(0, "kernel_heap", params={"seed": 7}), read_evidence(log))
    assert (row.activated, row.activated_s, row.address) == (False, None, None)
    assert row.params == {
        "seed": 7,
        "cache": "dentry",
        "size": 192,
        "offset": 17,
        "bit": 3,
        "address": "ffff88800b01a737",
        "overwritten_s": 0.5,
    }


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


def test_an_empty_log_is_no_file(tmp_path: Path) -> None:
    assert write_log(tmp_path / "logs", trial_row(crashed(), 1, 1, "now", ""), b"") is None
    assert list(tmp_path.iterdir()) == []
