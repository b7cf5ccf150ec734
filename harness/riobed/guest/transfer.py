# SPDX-License-Identifier: Apache-2.0
"""Copy files from the host into a guest."""

import io
import shlex
import tarfile
from pathlib import Path

from riobed.errors import InfraError
from riobed.vm import Machine

# guest-exec takes its input in one message, so a larger file is sent in pieces of this size.
_PIECE = 4 << 20


def copy_in(machine: Machine, source: Path, target: str) -> None:
    """Copy a file or folder with its permissions to the path `target` in the guest; InfraError on failure."""
    archive = io.BytesIO()
    # Compressed: the agent's channel is slow (about 1 MiB/s in an emulated guest), and unpacking is not.
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        tar.add(source, arcname=target.rstrip("/").rpartition("/")[2])
    data, parent = archive.getvalue(), target.rstrip("/").rpartition("/")[0] or "/"
    for start in range(0, len(data), _PIECE):
        # An earlier copy may have failed and left its archive.
        collect = f"cat {'>>' if start else '>'}/tmp/put.tar.gz"
        piece = machine.run(["/bin/sh", "-c", collect], stdin=data[start : start + _PIECE])
        if piece.status:
            raise InfraError(f"copy of {source}: {piece.stderr.decode('utf-8', 'replace').strip()}")
    where = shlex.quote(parent)
    unpack = f"mkdir -p {where} && tar -C {where} -xzf /tmp/put.tar.gz && rm /tmp/put.tar.gz"
    done = machine.run(["/bin/sh", "-c", unpack])
    if done.status:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["says nothing"]
        raise InfraError(f"copy to {target}: {said[0]}")
