# SPDX-License-Identifier: Apache-2.0
"""Bits of ext4's structures are found in a real file system, and matter to its user or to e2fsck."""

import random
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from riobed.errors import InfraError
from riobed.guest.memory.layout import PAGE
from riobed.trial.control import ext4
from riobed.trial.control.ext4 import Bit

FILES = {f"f{number:06}": 1000 + 3000 * number for number in range(8)} | {"....": 1000}
# Each line that writes or revokes is a transaction of a journal with checksums.
JOURNAL = ["jo -c -v 3", "jw -b 5000 {0}", "jw -b 5001,5002 {1}", "jw -b 5003 {0}"]
JOURNAL += ["jw -b 5004 {0}", "jw -r 5004", "jc"]


def said(*argv: object) -> bytes:
    return subprocess.run([str(word) for word in argv], capture_output=True).stdout


class Image:
    """A file system in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def debugfs(self, request: str, *options: str) -> bytes:
        return said("debugfs", "-n", *options, "-R", request, self.path)

    def ino(self, name: str) -> int:
        return int(self.debugfs(f"stat /d/{name}").split(maxsplit=2)[1])

    def place(self, ino: int) -> tuple[int, int]:
        return ext4.inode_places(self.debugfs(f"imap <{ino}>"))[ino]

    def flip(self, block: int, choose: Callable[[bytes], Bit | None]) -> Bit | None:
        content = bytearray(self.path.read_bytes())
        if bit := choose(bytes(content[block * PAGE : (block + 1) * PAGE])):
            content[block * PAGE + bit.offset] ^= 1 << bit.bit
            self.path.write_bytes(content)
        return bit

    def repair(self) -> bytes:
        return said("e2fsck", "-f", "-y", self.path)

    def listing(self) -> dict[bytes, list[bytes]]:
        """Mode, type, owner, group and size by name, of all but times and inode numbers."""
        lines = [line.split() for line in self.debugfs("ls -l /d").splitlines() if line]
        return {line[-1]: line[1:6] for line in lines if line[-1] not in (b".", b"..")}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    folder = tmp_path / "tree/d"
    folder.mkdir(parents=True)
    for name, size in FILES.items():
        (folder / name).write_bytes(random.Random(name).randbytes(size))
    made = Image(tmp_path / "image")
    said(
        "mke2fs", "-q", "-t", "ext4", "-b", PAGE, "-O", "metadata_csum", "-d", folder.parent, made.path, "32M"
    )
    assert made.repair() and set(made.listing()) == {name.encode() for name in FILES}
    return made


@pytest.mark.parametrize(
    ("name", "seed"),
    # e2fsck puts a dot where a name has a slash: a dot's lowest bit would not matter.
    [(b"f000004", seed) for seed in range(6)] + [(b"....", seed) for seed in range(16)],
)
def test_a_bit_of_a_name(image: Image, name: bytes, seed: int) -> None:
    before = image.listing()
    (block,) = ext4.numbers(image.debugfs(f"blocks <{image.ino('.')}>"))
    assert image.flip(block, partial(ext4.bit_of_name, name=b"f9", rng=random.Random(seed))) is None
    assert image.flip(block, partial(ext4.bit_of_name, name=name, rng=random.Random(seed)))
    image.repair()
    after = image.listing()
    assert before.keys() - after.keys() == {name} and len(after) == len(before)


@pytest.mark.parametrize("seed", range(12))
def test_a_bit_of_an_inode(image: Image, seed: int) -> None:
    before, name = image.listing(), b"f00000%d" % (seed % 8)
    block, at = image.place(image.ino(name.decode()))
    assert image.flip(block, partial(ext4.bit_of_inode, at=at, rng=random.Random(seed)))
    image.repair()
    after = image.listing()
    assert {each for each in before if before[each] != after[each]} == {name}


def test_an_inode_that_no_file_has(image: Image) -> None:
    block, at = image.place(31)
    assert image.flip(block, partial(ext4.bit_of_inode, at=at, rng=random.Random(1))) is None


@pytest.mark.parametrize("size", [20, 3000])
def test_a_bit_of_an_attribute(image: Image, size: int) -> None:
    value = image.path.with_name("value")
    value.write_bytes(b"v" * size)
    ino = image.ino("f000003")
    block, at = image.place(ino)
    choose = partial(ext4.bit_of_attribute, rng=random.Random(1))
    assert image.flip(block, partial(choose, at=at)) is None
    image.debugfs(f"ea_set -f {value} <{ino}> user.some", "-w")
    own = ext4.attribute_block(image.debugfs(f"stat <{ino}>"))
    requests = image.path.with_name("requests")
    requests.write_text("".join(f"ea_list <{number}>\n" for number in range(11, 20)))
    assert ext4.with_attributes(said("debugfs", "-n", "-f", requests, image.path)) == [ino]
    assert image.debugfs(f"ea_get -V <{ino}> user.some").strip() == value.read_bytes()
    assert bool(own) == (size > 100)
    found = image.flip(own or block, partial(choose, at=None if own else at))
    assert found and found.part == ("block" if own else "inode")
    image.repair()
    assert image.debugfs(f"ea_get -V <{ino}> user.some").strip() != value.read_bytes()


def test_a_bit_of_a_bitmap(image: Image) -> None:
    used = ext4.numbers(image.debugfs(f"blocks <{image.ino('f000007')}>"))
    assert len(used) == 6
    block, place = ext4.bitmap_place(image.debugfs("stats"), used[3])
    assert image.flip(block, partial(ext4.bit_in_use, place=place)) == place
    # It is no longer in use.
    assert image.flip(block, partial(ext4.bit_in_use, place=place)) is None
    log = image.repair()
    assert [n for n in range(9000) if ext4.e2fsck_names_block(log, n)] == [used[3]]
    assert not ext4.e2fsck_names_block(image.repair(), used[3])


def test_ranges_of_a_bitmap() -> None:
    log = b"Pass 5\nBlock bitmap differences:  -12 +(20--22) -(40--41)\nFix? yes\n"
    assert [n for n in range(60) if ext4.e2fsck_names_block(log, n)] == [12, 20, 21, 22, 40, 41]


def test_every_byte_of_the_journal_counts(image: Image, tmp_path: Path) -> None:
    blocks = [tmp_path / "one", tmp_path / "two"]
    for number, path in enumerate(blocks, 1):
        path.write_bytes(b"x" * number * PAGE)
    commands = tmp_path / "commands"
    commands.write_text("\n".join(JOURNAL).format(*blocks) + "\n")
    said("debugfs", "-w", "-f", commands, image.path)
    logged = ext4.logged_blocks(image.debugfs("logdump -a"))
    # The copy of the fourth transaction is revoked by the fifth.
    assert [number for number, _ in logged] == [*range(1, 12), 13, 15]
    words = (
        "descriptor copy commit descriptor copy copy commit descriptor copy commit descriptor commit commit"
    )
    assert " ".join(kind for _, kind in logged) == words
    whole = image.path.read_bytes()
    assert not ext4.e2fsck_names_journal(image.repair())
    for seed, (number, _) in enumerate(logged):
        image.path.write_bytes(whole)
        (block,) = ext4.numbers(image.debugfs(f"bmap <8> {number}"))
        rng = random.Random(seed)
        bit = Bit(rng.randrange(PAGE), rng.randrange(8))
        image.flip(block, lambda _, bit=bit: bit)  # type: ignore[misc]
        assert ext4.e2fsck_names_journal(image.repair()), (number, bit)


def test_copies_that_no_recovery_takes_do_not_count() -> None:
    def logged(sequence: int, block: int, at: int) -> bytes:
        return (
            b"Found expected sequence %d, type 1 (descriptor block) at block %d\n" % (sequence, at)
            + b"  FS block %d logged at journal block %d (flags 0x8)\n" % (block, at + 1)
            + b"Found expected sequence %d, type 2 (commit block) at block %d\n" % (sequence, at + 2)
        )

    revoked = b"Found expected sequence 8, type 5 (revoke table) at block 6\n  Revoke FS block 9\n"
    said = logged(7, 9, 3) + revoked + logged(8, 10, 7) + logged(9, 9, 10)
    assert [at for at, what in ext4.logged_blocks(said) if what == "copy"] == [8, 11]
    # What revokes is not committed.
    assert [at for at, what in ext4.logged_blocks(logged(7, 9, 3) + revoked) if what == "copy"] == [4]


def test_what_is_not_committed_does_not_count() -> None:
    one = b"Found expected sequence 7, type 1 (descriptor block) at block 3\n"
    one += b"  FS block 9 logged at journal block 4 (flags 0x8)\n"
    assert ext4.logged_blocks(one) == []
    end = b"Found expected sequence 7, type 2 (commit block) at block 5\n"
    assert ext4.logged_blocks(one + end + one) == [(3, "descriptor"), (4, "copy"), (5, "commit")]


@pytest.mark.parametrize("text", [b"", b"\xff\x00", b"12: File not found by ext2_lookup"])
def test_answers_of_nothing(text: bytes) -> None:
    assert ext4.inode_places(text) == {}
    with pytest.raises(InfraError, match="no bitmap for block 7"):
        ext4.bitmap_place(text, 7)
    assert (ext4.logged_blocks(text), ext4.attribute_block(text), ext4.numbers(text)) == ([], 0, [])


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_nonsense(seed: int) -> None:
    rng = random.Random(seed)
    block = rng.randbytes(PAGE)
    for at in range(0, PAGE, 256):
        ext4.bit_of_inode(block, at, rng)
        assert ext4.bit_of_attribute(block, at, rng) is None
    assert all(name in block for name, _ in ext4.live_names(block))
