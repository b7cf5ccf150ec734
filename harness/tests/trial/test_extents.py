# SPDX-License-Identifier: Apache-2.0
"""Where a file's bytes lie, from listings as filefrag prints them; the last one is of a real file."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from riobed.trial.control.extents import disk_offset

LISTING = b"""Filesystem type is: ef53
File size of /mnt/test/tree/f000012 is 20000 (20480 blocks of 1 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..    8191:   34816000..  34824191:   8192:
   1:    12288..   16383:   40960000..  40964095:   4096:   34824192:
   2:    16384..   20479:          0..      4095:   4096:             last,unknown_loc,delalloc,eof
/mnt/test/tree/f000012: 3 extents found
"""


# The last three are in a hole, not yet written, and behind the end.
PLACES = {0: 34816000, 8191: 34824191, 12289: 40960001, 8192: None, 16384: None, 20480: None}


@pytest.mark.parametrize("offset", PLACES)
def test_place_of_a_byte(offset: int) -> None:
    assert disk_offset(LISTING, offset) == PLACES[offset]


@pytest.mark.parametrize("text", [b"", b"Inode 12 is not found\n", b"   0:        0..    : x", b"\xff\x00"])
def test_a_listing_of_nothing(text: bytes) -> None:
    assert disk_offset(text, 0) is None


@pytest.mark.parametrize("flag", [b"inline", b"not_aligned,inline", b"encoded", b"unwritten"])
def test_what_lies_elsewhere(flag: bytes) -> None:
    line = b"   0:        0..     100:      5000..      5100:    101:             last," + flag + b",eof\n"
    assert disk_offset(line, 50) is None


def test_a_real_file_on_a_real_disk(tmp_path: Path) -> None:
    """The byte found is the file's, read from below the file system."""
    if os.geteuid():
        pytest.skip("needs root")

    def run(*words: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([str(word) for word in words], capture_output=True)

    disk, folder = tmp_path / "disk", tmp_path / "mount"
    folder.mkdir()
    assert not run("mke2fs", "-q", "-F", "-t", "ext4", disk, "8M").returncode
    if run("mount", "-o", "loop", disk, folder).returncode:
        pytest.skip("needs loop devices and ext4")
    try:
        content = random.Random(1).randbytes(100_000)
        (folder / "file").write_bytes(content)
        assert not run("sync", folder / "file").returncode
        listing = run("filefrag", "-e", "-v", "-b1", folder / "file").stdout
    finally:
        assert not run("umount", folder).returncode
    for offset in (0, 4097, 99_999):
        byte = disk_offset(listing, offset)
        assert byte is not None and disk.read_bytes()[byte] == content[offset]
