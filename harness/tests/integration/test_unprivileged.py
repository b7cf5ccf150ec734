# SPDX-License-Identifier: Apache-2.0
"""QEMU runs as a user of its own, without capabilities, and sees its own files only."""

import os
import subprocess
from pathlib import Path

import pytest
from riobed.guest.guest import Guest
from riobed.vm.host.process import qemus_with
from riobed.vm.host.unprivileged import qemu_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="riobed is not run by root")


@pytest.fixture
def qemu(rio: Guest) -> int:
    (pid,) = qemus_with(f"guest={rio.machine.config.name},".encode())
    return pid


def test_it_has_no_privileges(qemu: int) -> None:
    lines = (line.split(":", 1) for line in Path(f"/proc/{qemu}/status").read_text().splitlines())
    status = {key: value.split() for key, value in lines}
    user = qemu_user()
    assert user and user.pw_uid
    assert (set(status["Uid"]), set(status["Gid"])) == ({str(user.pw_uid)}, {str(user.pw_gid)})
    assert "0" not in status["Groups"]
    for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status[kind][0], 16) == 0, kind
    assert status["NoNewPrivs"] == ["1"]


def test_it_has_namespaces_of_its_own_where_the_host_allows_it(qemu: int) -> None:
    if subprocess.run(["unshare", "--mount", "--net", "--ipc", "true"], capture_output=True).returncode:
        pytest.skip("this host lacks namespaces")
    for kind in ("mnt", "net", "ipc"):
        own, ours = (Path("/proc", str(pid), "ns", kind) for pid in (qemu, os.getpid()))
        assert own.readlink() != ours.readlink()
    # Nothing to talk to.
    devices = Path(f"/proc/{qemu}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


def test_it_reads_and_changes_its_own_files_only(qemu: int, rio: Guest) -> None:
    machine, user = rio.machine, qemu_user()
    assert user
    folder, ram = machine.config.folder, machine.ram_path()

    def can(what: str, path: Path) -> bool:
        become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        return not subprocess.run([*become, "test", what, path]).returncode

    assert can("-w", machine.config.test_disk) and can("-w", ram)
    # What root reads must not be what QEMU put in its place.
    assert not can("-w", folder) and not can("-w", ram.parent)
    assert not can("-r", folder) and not can("-w", machine.config.root_image)
    assert not can("-r", Path("/etc/shadow")) and can("-r", Path("/etc/passwd"))
