# SPDX-License-Identifier: Apache-2.0
"""What is read out of counters, console and recovery report."""

from riobed.soak.kernel import complaints, mismatches, not_settled, parse_counters


def test_counters() -> None:
    text = "traps 0\nwindows 18446744073709551615\n\nnot a number x\nshadow_misses -1\nverify\ncorrupt 3\n"
    assert parse_counters(text) == {"traps": 0, "windows": 18446744073709551615, "corrupt": 3}


def test_complaints_of_a_kernel_that_goes_on() -> None:
    console = (
        b"[    1.2] EXT4-fs (vdb): mounted filesystem r/w without journal\r\n"
        b"riobed: production ready\r\n"
        b"[   30.1] EXT4-fs error (device vdb): ext4_lookup:1815: inode #12: comm x: bad\r\n"
        b"[   31.0][  T12] WARNING: CPU: 0 PID: 7 at mm/rio.c:12 rio_close+0x1/0x2\r\n"
        b"[   32.0] Out of memory: Killed process 99 (stress-ng-vm)\r\n"
    )
    assert complaints(console) == [
        "EXT4-fs error (device vdb): ext4_lookup:1815: inode #12: comm x: bad",
        "WARNING: CPU: 0 PID: 7 at mm/rio.c:12 rio_close+0x1/0x2",
        "Out of memory: Killed process 99 (stress-ng-vm)",
    ]
    assert len(complaints(b"[ 1.0] WARNING: again\n" * 100)) == 20
    # The crash is told elsewhere, and a stressor may print anything.
    crash = b"[ 40.0] Kernel panic - not syncing: x\n[ 40.1] BUG: y\n"
    assert complaints(b"BUG: ours\n" + crash) == []


def test_mismatches_where_none_was_compared_are_not_zero() -> None:
    assert mismatches(None) is None
    assert mismatches({}) is None
    assert mismatches({"intact": 0, "corrupt": 0, "changing": 4}) is None
    assert mismatches({"intact": 9, "corrupt": 0, "changing": 4}) == 0
    assert mismatches({"intact": 0, "corrupt": 2}) == 2


def test_counters_that_must_be_zero_where_the_kernel_has_them() -> None:
    assert not_settled(None, None) == {}
    assert not_settled({"traps": 3}, {"intact": 1, "changing": 2}) == {}
    assert not_settled({"log_misses": 0}, {"changing": 0, "damaged": 0}) == {}
    found = not_settled({"log_misses": 1, "changes_lost": 4}, {"changing": 2, "damaged": 0})
    assert found == {"log_misses": 1, "changes_lost": 4, "changing": 2}
