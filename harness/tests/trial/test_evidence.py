# SPDX-License-Identifier: Apache-2.0
"""The evidence log: whole lines count, the first of a kind, and nothing else does any harm."""

import random

import pytest
from riobed.trial.observe.evidence import Evidence, read_evidence


def test_a_log_as_the_module_writes_it() -> None:
    log = (
        b"R 20 5000000000 5200000000\nI 0 6000000000\nI 1 6000000100\nI 19 6000000200\n"
        b"A 1 6500000000\nO 19 memcpy in_kernel 300 17 ffff88800b01a737 ffffffff81234567\nA 19 7000000000\n"
    )
    evidence = read_evidence(log)
    assert evidence.ready == 20
    assert evidence.injected == {0: 6000000000, 1: 6000000100, 19: 6000000200}
    assert evidence.activated == {1: 6500000000, 19: 7000000000}
    assert evidence.hits == {
        19: {"routine": "memcpy", "direction": "in_kernel", "length": 300, "extra": 17,
             "to": "ffff88800b01a737", "caller": "ffffffff81234567"},
    }  # fmt: skip
    # The kernel's log was 0.2 s ahead.
    assert evidence.of_log(7.25) == 7.05


def test_what_each_kind_of_fault_hit() -> None:
    log = (
        b"H 0 slab ext4_inode_cache 1096 17 3 ffff88800b01a737\n"
        b"S 1 kworker/0:1-ev 17 212 7 ffffc90000515394\n"
        b"F 2 __kmalloc_noprof kmalloc-64 64 ffff888008b24100 1\nL 3 mutex_lock ffffffff81234567\n"
        b"W 0 5\n"
    )
    evidence = read_evidence(log)
    assert evidence.hits == {
        0: {"kind": "slab", "name": "ext4_inode_cache", "size": 1096, "offset": 17, "bit": 3,
            "address": "ffff88800b01a737"},
        1: {"task": "kworker/0:1-ev", "pid": 17, "offset": 212, "bit": 7, "address": "ffffc90000515394"},
        2: {"routine": "__kmalloc_noprof", "cache": "kmalloc-64", "size": 64, "address": "ffff888008b24100",
            "live": 1},
        3: {"procedure": "mutex_lock", "caller": "ffffffff81234567"},
    }  # fmt: skip
    assert evidence.overwritten == {0: 5}


def test_activation_is_in_seconds_since_the_first_injection() -> None:
    evidence = read_evidence(b"I 1 2000000000\nI 0 1500000000\nA 1 4000000000\nA 0 1500000000\n")
    assert evidence.activated_s(1) == 2.5
    assert evidence.activated_s(0) == 0.0
    assert evidence.activated_s(2) is None
    # Without an injection there is no time.
    assert read_evidence(b"A 1 5\n").activated_s(1) is None
    assert Evidence().activated_s(0) is None


def test_the_first_record_counts() -> None:
    evidence = read_evidence(b"I 0 5\nI 0 9\nA 0 6\nA 0 7\nL 0 up_read 1\nL 0 up_write 2\n")
    assert (evidence.injected, evidence.activated) == ({0: 5}, {0: 6})
    assert evidence.hits == {0: {"procedure": "up_read", "caller": "1"}}


COPY = b"O 0 memcpy to_user 1 17 7f12a0b3c4d5 ffffffff81234567"
FLIP = b"H 0 slab dentry 192 17 3 ffff88800b01a737"


@pytest.mark.parametrize("line", [
    b"", b"I", b"I 0", b"I 0 ", b"I x 5", b"I 0 5 6", b" I 0 5", b"I 0 5\r", b"i 0 5", b"I -1 5", b"I 0 -5",
    b"I  0 5", b"I 1000 5", b"I 0 9999999999999999999", b"A 0", b"X 0 5", b"W 0", b"W 0 5 6", b"I 0 I 0 5",
    b"\0I 0 5", b"I 0 5\0", b"\xff" * 99, "I \u0661 5".encode(),
    COPY[:-17], COPY.replace(b"mcpy", b"m cpy"), COPY.replace(b"mcpy", b"m" * 65),
    COPY.replace(b"17", b"1" * 8), COPY.replace(b"to_user", b"into_user"),
    FLIP.replace(b" 3 ", b" 8 "), FLIP.upper(), FLIP.replace(b"ffff", b"0ffff"), FLIP[:-17],
    FLIP.replace(b"dentry", b"two words"), FLIP.replace(b"dentry", b"c" * 41),
    FLIP.replace(b"H 0", b"H 1000"), FLIP.replace(b"slab ", b""), FLIP.replace(b"slab", b"slob"),
    b"S 0 cat 1 5 3 \xff", b"S 0  1 5 3 ffffc90000515394",
    b"F 0 kmalloc kmalloc-64 64 ffff888008b24100", b"F 0 kmalloc kmalloc-64 64 ffff888008b24100 2",
    b"R 1", b"R 1 5", b"R a 1 5", b"R 10000 5 5", b"L 0 mutex_lock",
    b"L 0 mutex_lock ffffffff81234567 1", b"L0 mutex_lock ffffffff81234567",
])  # fmt: skip
def test_a_line_that_makes_no_sense_is_dropped(line: bytes) -> None:
    assert read_evidence(line) == read_evidence(line + b"\n") == Evidence()
    around = read_evidence(b"I 3 7\n" + line + b"\nA 3 8\n")
    assert (around.injected, around.activated, around.hits) == ({3: 7}, {3: 8}, {})


def test_a_cut_last_line_is_read_as_far_as_it_makes_sense() -> None:
    assert read_evidence(b"I 3 7\nA 3").activated == {}
    assert read_evidence(b"I 3 7\nA ").injected == {3: 7}
    assert read_evidence(b"R 20 5000000000").ready == 0


def test_noise() -> None:
    rng = random.Random(4)
    for _ in range(300):
        noise = rng.randbytes(300).replace(b"\n", b"?")
        evidence = read_evidence(b"I 3 7\n" + noise + b"\nL 3 up_read 6\n")
        assert evidence.injected == {3: 7}
        assert evidence.hits == {3: {"procedure": "up_read", "caller": "6"}}
        assert evidence.activated == {}
