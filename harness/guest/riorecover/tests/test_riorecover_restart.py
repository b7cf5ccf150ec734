# SPDX-License-Identifier: Apache-2.0
"""A recovery that is cut short at any of its writes: the next one restores everything."""

import json
import os
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from registry_image import PAGE, RAM_PAGES, Ram, data, metadata, undo
from riorecover_helper import FILE_SIZE, SOURCE, Mounted, Riorecover, build, checked, recovery

# Few entries, so that saving them takes few writes.
ENTRIES = 400
# Writes and flushes behind the save: 4 blocks, 2 files, which are flushed together, the end of the save.
BEHIND = 4 + 1 + 2 + 1 + 1 + 2
FRAME = 330
KILLED = -9


@pytest.fixture(scope="session")
def frail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """riorecover that loses power when the environment says so."""
    wrapped = "".join(f" -Wl,--wrap={name}" for name in ("pwrite", "fsync", "syncfs"))
    sanitize = f"-fsanitize=address,undefined -fno-sanitize-recover=all{wrapped} power_loss.c"
    folder, more = tmp_path_factory.mktemp("riorecover-frail"), SOURCE / "tests/power_loss.c"
    return build(folder, "riorecover-sanitize", f"SANITIZE={sanitize}", more=more)


@dataclass
class Bench:
    """A crashed machine that can be put back to the moment of the crash."""

    riorecover: Riorecover
    frail: Path
    ram: Ram
    loop: Mounted
    save: Path
    files: dict[str, bytes]
    blocks: dict[int, bytes]
    disk_before: bytes
    ram_before: bytes

    def crashed(self) -> None:
        """The machine as the crash left it."""
        self.loop.unmount()
        with self.loop.device.open("r+b") as file:
            file.write(self.disk_before)
        self.ram.put(0, self.ram_before)
        self.save.write_bytes(bytes(2 << 20))

    def wait_until_free(self) -> None:
        """Until an e2fsck that has lost its parent has gone, and the mount before it, too."""
        for _ in range(6000):
            self.loop.unmount()
            try:
                os.close(os.open(self.loop.device, os.O_RDONLY | os.O_EXCL))
            except OSError:
                time.sleep(0.01)
            else:
                return
        raise AssertionError(f"{self.loop.device} is still in use")

    def recover(self, lose_power_at: int = 0, seed: int = 0) -> dict[str, Any] | None:
        """The report; None if power was lost."""
        self.wait_until_free()
        count = self.save.with_name("count")
        arguments = recovery(self.ram, self.loop.device, self.loop.folder, save=self.save)
        lose = {"AT": lose_power_at, "SEED": seed, "COUNT": count}
        env = {f"LOSE_POWER_{name}": str(value) for name, value in lose.items()}
        env |= os.environ | {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99"}
        result = subprocess.run([self.frail, *map(str, arguments)], capture_output=True, text=True, env=env)
        if result.returncode == KILLED:
            self.wait_until_free()
            return None
        assert result.returncode == 0, result.stderr
        self.writes = int(count.read_text())
        return checked(json.loads(result.stdout))

    def lose_memory(self) -> None:
        self.ram.put(0, bytes(RAM_PAGES * PAGE))

    def found(self) -> tuple[dict[str, bytes], dict[int, bytes]]:
        """Files, and the blocks that are restored."""
        files = {name: (self.loop.folder / name).read_bytes() for name in self.files}
        self.loop.unmount()
        disk = self.loop.device.read_bytes()
        return files, {block: disk[block * PAGE : (block + 1) * PAGE] for block in self.blocks}

    def assert_restored(self) -> None:
        assert self.found() == (self.files, self.blocks)

    def assert_untouched(self) -> None:
        before = {block: self.disk_before[block * PAGE : (block + 1) * PAGE] for block in self.blocks}
        assert self.found() == (dict.fromkeys(self.files, b"o" * FILE_SIZE), before)


@pytest.fixture
def bench(riorecover: Riorecover, frail: Path, ram: Ram, loop: Mounted, tmp_path: Path) -> Bench:
    rng = random.Random(50)
    files, blocks, pfn = {}, {}, FRAME
    for name in ("file", "kept"):
        ino = loop.inode(f"/{name}")[0]
        pages = [rng.randbytes(PAGE) for _ in range(3)]
        files[name] = b"".join(pages)[:FILE_SIZE]
        for index, content in enumerate(pages):
            ram.entry(pfn, data(ino, index), content)
            pfn += 1
    # Blocks that the file system does not use: what is in them is not e2fsck's business.
    # An operation had changed some of them, the first of which is not in memory.
    blocks[2000] = loop.device.read_bytes()[2000 * PAGE : 2001 * PAGE]
    for block in range(2001, 2004):
        blocks[block] = rng.randbytes(PAGE)
        ram.entry(pfn, metadata(block), rng.randbytes(block % 2 and 100) + blocks[block][block % 2 and 100 :])
        pfn += 1
    records = []
    for block in (2000, 2001, 2003):
        records.append(undo(3, block, 50, rng.randbytes(50)))
        blocks[block] = blocks[block][:50] + records[-1][24:74] + blocks[block][100:]
        records.append(undo(3, block, 0, blocks[block][:55]))
    ram.log_page(3, *records)
    ram.valid(nr_entries=ENTRIES)
    before = loop.device.read_bytes(), ram.path.read_bytes()
    return Bench(riorecover, frail, ram, loop, tmp_path / "save", files, blocks, *before)


def writes_of(bench: Bench) -> int:
    """How many writes and flushes a whole recovery has."""
    bench.crashed()
    assert bench.recover() is not None
    bench.assert_restored()
    return bench.writes


def test_power_lost_at_each_write(bench: Bench, longer: int) -> None:
    """At every third, unless everything is run; the test below loses the memory, too, at each."""
    last = writes_of(bench)
    assert 30 < last < 80
    for number in range(1, last + 1, 3 if longer == 1 else 1):
        bench.crashed()
        assert bench.recover(number, seed=number) is None
        report = bench.recover()
        assert report is not None and report["source"] == "memory", number
        bench.assert_restored()


def test_power_lost_at_each_write_and_memory_with_it(bench: Bench) -> None:
    """From then on nothing is lost that was saved, and nothing was written that was not saved."""
    last = writes_of(bench)
    sources = []
    for number in range(1, last + 1):
        bench.crashed()
        assert bench.recover(number, seed=number) is None
        bench.lose_memory()
        report = bench.recover()
        assert report is not None
        sources.append(report["source"] if report["registry"] == "recovered" else "")
        if sources[-1] or number > last - 2:
            # At the very last the save is being ended: all is on disk.
            bench.assert_restored()
        else:
            bench.assert_untouched()
    # Not saved yet, then saved, then ended; while its header is written it may be either.
    first = sources.index("save") + 1
    assert last - BEHIND <= first <= last - BEHIND + 1
    assert set(sources[first - 1 : last - 2]) == {"save"}


@pytest.mark.parametrize("seed", range(8))
def test_power_lost_again_and_again(bench: Bench, seed: int) -> None:
    """Three recoveries cut short in a row, memory lost in some of them once it was saved."""
    rng = random.Random(seed)
    last = writes_of(bench)
    bench.crashed()
    saved = False
    for _ in range(3):
        number = rng.randrange(1, last)
        if bench.recover(number, seed=rng.randrange(1000)):
            break
        # Behind the save's last flush, and before it is ended.
        saved = saved or last - BEHIND < number < last - 1
        if saved and rng.random() < 0.5:
            bench.lose_memory()
    else:
        assert bench.recover() is not None
    bench.assert_restored()


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment(bench: Bench, seed: int) -> None:
    """In e2fsck or in the middle of a mount as well."""
    rng = random.Random(seed)
    bench.crashed()
    arguments = recovery(bench.ram, bench.loop.device, bench.loop.folder, save=bench.save)
    for _ in range(3):
        command = [bench.riorecover.program, *map(str, arguments)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, start_new_session=True, **quiet) as process:
            try:
                process.wait(timeout=rng.uniform(0, 0.12))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
        bench.wait_until_free()
    assert bench.recover() is not None
    bench.assert_restored()
