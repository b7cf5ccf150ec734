# SPDX-License-Identifier: Apache-2.0
"""Copy files from the host into a guest, and ask for a process that runs in it."""

import io
import shlex
import tarfile
from pathlib import Path

from riobed.errors import InfraError
from riobed.vm import ExecResult, Machine

_ARCHIVE = "/tmp/put.tar.gz"


def copy_in(machine: Machine, source: Path, target: str) -> None:
    """Copy a file or folder with its permissions to the path `target` in the guest; InfraError on failure."""
    archive = io.BytesIO()
    # Compressed: the agent's channel is slow (about 1 MiB/s in an emulated guest), and unpacking is not.
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(source, arcname=target.rstrip("/").rpartition("/")[2])
    machine.write_file(_ARCHIVE, archive.getvalue())
    where = shlex.quote(target.rstrip("/").rpartition("/")[0] or "/")
    # The agent's umask is 077 (QEMU, qga/main.c, become_daemon()). tar restores the permissions that it has.
    unpack = f"umask 022 && mkdir -p {where} && tar -C {where} -xzf {_ARCHIVE} && rm {_ARCHIVE}"
    done = machine.run(["/bin/sh", "-c", unpack])
    if done.status:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["says nothing"]
        raise InfraError(f"copy to {target}: {said[0]}")


def poll(machine: Machine, pid: int) -> ExecResult | None:
    """Return how a process ended, None while it runs."""
    try:
        return machine.status(pid)
    except InfraError:
        # A busy guest answers late; the next call opens a new conversation.
        machine.agent_answers(30)
        return None
