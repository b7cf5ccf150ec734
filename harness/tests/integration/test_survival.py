# SPDX-License-Identifier: Apache-2.0
"""A campaign that is killed or whose guests have no room left ends as if nothing had been.

RIOBED_KILLS says how many kills there are; RIOBED_SEED draws other moments.
"""

import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from riobed.vm.host.process import qemus_with
from riobed_results.errors import StoreError
from riobed_results.store.queries import trial_rows
from riobed_results.store.store import open_store
from tiers import remove_short_folder, short_folder

from .conftest import RIOBED, check_drawn, small_spec

KILLS = int(os.environ.get("RIOBED_KILLS", "2"))
SEED = int(os.environ.get("RIOBED_SEED", "3"))
# A start takes about 3 s, a guest's boot 10 s, a trial 3 to 8 s: every second kill comes late.
LONGEST_S = (15.0, 60.0)
CLASSES, MODES = "kernel_text, none", "rio"
ROUNDS = 2 + KILLS // 5
TRIALS = 2 * ROUNDS


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path, for sockets, of which all processes of the test can be known."""
    folder = short_folder()
    folder.mkdir()
    # QEMU is another user.
    folder.chmod(0o711)
    monkeypatch.setenv("RIOBED_SCRATCH", str(folder))
    yield folder
    remove_short_folder(folder)


class Command:
    """`riobed run` with one worker, started as often as needed; `prefix` is what starts it."""

    def __init__(self, folder: Path, modes: str, prefix: tuple[str, ...] = ()) -> None:
        folder.mkdir()
        self.store = folder / "store.sqlite"
        self.output = folder / "output"
        self._spec = folder / "spec.yaml"
        self._spec.write_text(small_spec("kills", modes, CLASSES, ROUNDS))
        self._prefix = prefix
        self.pids: list[int] = []
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        run = ["run", self._spec, "--store", self.store, "--workers", "1"]
        with self.output.open("ab") as output:
            command = [*self._prefix, *RIOBED, *run]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self.pids.append(self.process.pid)
        return self.process

    def said(self) -> str:
        return self.output.read_text(errors="replace")[-2000:]

    def kill(self, number: int, mark: bytes) -> str:
        """Kill a QEMU, every second time if there is one, or the command, which is then started again."""
        qemus = qemus_with(mark)
        if qemus and number % 2:
            os.kill(qemus[0], 9)
            return "QEMU"
        self.process.kill()
        self.process.wait()
        self.start()
        return "command"

    def trials(self) -> int:
        """How many results there are."""
        with suppress(StoreError):
            store = open_store(str(self.store))
            rows = trial_rows(store, store.campaign().id)
            return sum(row.outcome != "infra_error" for row in rows)
        return 0

    def finish(self) -> None:
        """Let it run to its end; a run that had to give a trial up is followed by another."""
        for _ in range(3):
            if self.process.wait(3600) == 0:
                return
            assert "run the same command again" in self.said(), self.said()
            self.start()
        pytest.fail(self.said())


def test_random_kills_change_nothing(tmp_path: Path, scratch: Path) -> None:
    rng = random.Random(SEED)
    disturbed = Command(tmp_path / "disturbed", MODES)
    victims = []
    for number in range(KILLS):
        # Sooner if the campaign would be over before the last kill.
        until = time.monotonic() + rng.uniform(0.0, LONGEST_S[number % 2])
        while time.monotonic() < until and disturbed.trials() <= TRIALS * (number + 1) // (KILLS + 1):
            time.sleep(0.2)
        if disturbed.process.poll() is not None:
            assert disturbed.process.returncode, f"only {number} kills fitted in: {disturbed.said()}"
            disturbed.start()
        victims.append(disturbed.kill(number, f"{scratch}/".encode()))
        print(f"{number + 1}: {victims[-1]} after {disturbed.trials()} trials, {time.ctime()}", flush=True)
    disturbed.finish()
    assert not qemus_with(f"{scratch}/".encode())
    assert list(scratch.iterdir()) == []
    memory = [path for pid in disturbed.pids for path in Path("/dev/shm").glob(f"riobed-{pid}-*")]
    assert memory == []

    check_drawn(open_store(str(disturbed.store)))
    check_rows(disturbed)


def check_rows(command: Command) -> None:
    """Attempts are counted without a gap, and the log that a row names is there and whole."""
    store = open_store(str(command.store))
    rows = trial_rows(store, store.campaign().id)
    attempts: dict[int, list[int]] = {}
    for row in rows:
        attempts.setdefault(row.position, []).append(row.attempt)
        if row.log:
            subprocess.run(["gzip", "--test", command.store.parent / row.log], check=True)
        if row.outcome == "infra_error":
            assert row.detail and "\n" not in row.detail
        else:
            assert row.requested == row.injected and (row.fault_class != "none" or row.corruption == "none")
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in attempts.values())


def on_own_disk(folder: Path, size: str) -> tuple[str, ...]:
    """What starts a command for which that folder is a file system of its own; no other process sees it."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this host lacks mount namespaces")
    return ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size={size} tmpfs {folder} && exec "$@"', "sh")


def test_no_room_for_a_guests_memory(scratch: Path) -> None:
    prefix = on_own_disk(Path("/dev/shm"), "64m")
    argv = [*prefix, *RIOBED, "guest", "run", "rio", "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    told = r"riobed: /dev/shm/riobed-\S+: \d\d MiB free, 512 MiB needed; make room there\n"
    assert re.fullmatch(told, done.stderr), done.stderr


@pytest.mark.extended
def test_no_room_left_for_guests(tmp_path: Path, scratch: Path) -> None:
    """The working folder is on a disk of its own that gets full in the middle of a trial."""
    command = Command(tmp_path / "run", "rio", on_own_disk(scratch, "1800m"))
    deadline = time.monotonic() + 300
    while not command.trials():
        assert command.process.poll() is None and time.monotonic() < deadline, command.said()
        time.sleep(0.2)
    time.sleep(1.0)
    # What the process sees there.
    filler = Path(f"/proc/{command.process.pid}/root{scratch}/filler")
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
    full_since = time.time()
    assert command.process.wait(300) == 1
    assert re.search(r"riobed: .*: \d+ MiB free, \d+ MiB needed; make room there$", command.said().strip())
    store = open_store(str(command.store))
    for row in trial_rows(store, store.campaign().id):
        if datetime.fromisoformat(row.finished).timestamp() > full_since:
            assert row.outcome == "infra_error"
    command.start()
    command.finish()
    check_drawn(open_store(str(command.store)))
    check_rows(command)
