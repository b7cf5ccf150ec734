# SPDX-License-Identifier: Apache-2.0
"""A disk that is really full, of the store, of the logs or of the guests: one line, and nothing is lost.

The disk is a small tmpfs that only the test's own processes see. The store is real, the guests are not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from campaign_world import World, essence, undisturbed
from riobed.errors import RiobedError
from riobed.guest import guest as guests
from riobed_results.errors import StoreError

pytestmark = pytest.mark.slow
# Room for a store of a few rows; above the least that is asked for a guest's.
SIZES = {"store": "256k", "logs": "64k", "scratch": "68m"}
FULL_AT = 5


def can_mount() -> bool:
    return not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode


def fill(disk: Path) -> Path:
    """Write until there is no room left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


def disturbed_campaign(folder: Path, what: str) -> dict[str, Any]:
    """A campaign whose disk gets full in a trial, then has room again; what was said and stored."""
    disk = folder / "disk"
    with pytest.MonkeyPatch.context() as patch:
        world = World(patch, folder / "disk" if what == "store" else folder / "rest")
        patch.setattr(guests, "scratch_dir", lambda: disk if what == "scratch" else folder / "rest")
        for_logs = disk if what == "logs" else folder / "rest"
        (world.folder / "logs").symlink_to(for_logs)
        fillers: list[Path] = []
        world.before = lambda _, position: position == FULL_AT and fillers.append(fill(disk))
        try:
            world.run()
            error = ""
        except (RiobedError, StoreError) as failure:
            error = str(failure)
        fillers[0].unlink()
        before = [essence(row) for row in world.rows()]
        halves = [path.name for path in for_logs.iterdir() if path.name.startswith(".")]
        world.before = undisturbed
        rows = world.run()
        lost = [row.log for row in rows if row.log and not (world.folder / row.log).exists()]
        after = [essence(row) for row in rows]
    return {"error": error, "before": before, "after": after, "halves": halves, "lost": lost}


@pytest.mark.skipif(os.geteuid() != 0 or not can_mount(), reason="this host lacks mount namespaces")
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("store", "store {disk}/store.sqlite: has no room left on its disk: free some and run again"),
        (
            "logs",
            "log {folder}/rest/logs/1-00005-1-rio-kernel_text.log.gz: No space left on device; make room",
        ),
        ("scratch", "{disk}/w0-rio: 0 MiB free, 64 MiB needed; make room there"),
    ],
)
def test_a_campaign_goes_on_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, error: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "rest").mkdir()
    mount = f"mount -t tmpfs -o size={SIZES[what]} tmpfs {disk} && exec "
    program = f"{sys.executable} {__file__} {tmp_path} {what}"
    # It imports what this process can.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    make = ["unshare", "-m", "sh", "-c", mount + program]
    done = subprocess.run(make, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["error"].startswith(error.format(disk=disk, folder=tmp_path))
    (tmp_path / "undisturbed").mkdir()
    rows = World(monkeypatch, tmp_path / "undisturbed").run()
    expected = json.loads(json.dumps([essence(row) for row in rows]))
    assert seen["before"] == expected[:FULL_AT]
    assert seen["after"] == expected
    assert seen["halves"] == seen["lost"] == []


if __name__ == "__main__":
    print(json.dumps(disturbed_campaign(Path(sys.argv[1]), sys.argv[2])))
