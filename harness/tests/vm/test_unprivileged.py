# SPDX-License-Identifier: Apache-2.0
"""Files that QEMU's user cannot reach are copied to where it can."""

import os
import pwd
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from harness_builders import PATIENCE_S, shell_program
from riobed.vm.host import unprivileged


def test_two_workers_copy_a_program_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = shell_program(tmp_path / "closed/qemu/qemu-system-x86_64", "exit 0")
    (tmp_path / "closed").chmod(0o700)
    both, copytree = Barrier(2, timeout=PATIENCE_S), shutil.copytree

    def copy(*given: object, **more: object) -> object:
        made = copytree(*given, **more)  # type: ignore[arg-type]
        both.wait()
        return made

    monkeypatch.setattr(shutil, "copytree", copy)
    monkeypatch.setattr(unprivileged, "qemu_user", lambda: pwd.getpwuid(os.getuid()))
    folder = tmp_path / "files"
    with ThreadPoolExecutor(2) as workers:
        places = set(workers.map(unprivileged.readable_program, [program] * 2, [folder] * 2))
    assert places == {folder / "qemu/qemu-system-x86_64"}
    assert os.access(places.pop(), os.X_OK) and [path.name for path in folder.iterdir()] == ["qemu"]
