# SPDX-License-Identifier: Apache-2.0
"""The user that QEMU runs as where riobed is run by root, and the files that user is given.

A guest under fault injection executes random code, and so may the QEMU below it.

libvirt's own setting, `user` in qemu.conf, is not used. libvirt, which is root here, can open a /dev/kvm that
belongs to root alone; QEMU as another user cannot. Where the two differ, libvirt asks QEMU again and again
what it can do: measured with libvirt 9.0, 60 s for each start on a busy host. So libvirt starts a script as
root, which gives up all privileges and becomes QEMU.
"""

import os
import pwd
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from riobed.errors import EnvironmentFault

# The second is libvirt's, on hosts that were set up by an earlier version.
_NAMES = ("riobed-qemu", "libvirt-qemu")
_ALL_MAY_READ, _ALL_MAY_ENTER = 0o004, 0o001

# Its arguments are libvirt's for QEMU. The folder of the RAM and that of the key with which libvirt would
# encrypt secrets stay root's: QEMU gets one file in each. libvirt names both by the domain's number and 20
# characters of its name.
_DROP = """\
for word; do case $word in guest=*) name=${{word#guest=}}; name=${{name%%,*}} ;; esac; done
name=$(printf %.20s "$name")
for folder in {memory}/libvirt/qemu/*-"$name"; do
	[ -e "$folder/pc.ram" ] || : >"$folder/pc.ram"
	chown {user} "$folder/pc.ram" && chmod 711 "$folder" || exit
done
for folder in {libvirt}/lib/qemu/domain-*-"$name"; do
	[ ! -e "$folder/master-key.aes" ] || chown {user} "$folder/master-key.aes" || exit
	chmod 711 "$folder" || exit
done
set -- {become} "$@"
"""


@cache
def qemu_user() -> pwd.struct_passwd | None:
    """The user; None where riobed is not run by root: QEMU then runs as the caller.

    EnvironmentFault if the host has none.
    """
    if os.geteuid():
        return None
    for name in _NAMES:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EnvironmentFault(f"there is no user {_NAMES[0]}, as which QEMU runs; run 'make setup'")


@cache
def drop_script(memory: Path, libvirt: Path) -> str:
    """Lines of a shell script that give up root's privileges for the command in its arguments.

    It gets mount, network and IPC namespaces of its own where the host allows it. "" if we are not root.
    """
    user = qemu_user()
    if not user:
        return ""
    namespaces = ["unshare", "--mount", "--net", "--ipc", "--"]
    allowed = not subprocess.run([*namespaces, "true"], capture_output=True).returncode
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
    become += ["--inh-caps=-all", "--no-new-privs", "--"]
    return _DROP.format(
        memory=shlex.quote(str(memory)),
        libvirt=shlex.quote(str(libvirt)),
        user=f"{user.pw_uid}:{user.pw_gid}",
        become=shlex.join([*(namespaces if allowed else []), *become]),
    )


def open_folder(folder: Path) -> None:
    """Make a folder in which QEMU can have files, but neither list nor make any."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)


def give(*files: Path) -> None:
    """Make files QEMU's own."""
    if user := qemu_user():
        for file in files:
            os.chown(file, user.pw_uid, user.pw_gid)


def readable(file: Path, folder: Path) -> Path:
    """The file, or where QEMU cannot get at it, as below /root, a link to it or a copy of it in `folder`.

    EnvironmentFault if QEMU cannot get at that folder, either.
    """
    if not qemu_user() or (_may(file, _ALL_MAY_READ) and _reached(file)):
        return file
    open_folder(folder)
    place = folder / f"{file.stat().st_ino}-{file.name}"
    if not _reached(place):
        raise EnvironmentFault(
            f"{folder}: QEMU's user cannot get there; set RIOBED_SCRATCH to an open folder"
        )
    if not place.exists():
        made = folder / f"{place.name}.{os.urandom(4).hex()}"
        _link_or_copy(file, made)
        made.replace(place)
    return place


def _link_or_copy(file: Path, made: Path) -> None:
    if _may(file, _ALL_MAY_READ):
        try:
            os.link(file, made)
            return
        except OSError:  # another file system
            pass
    shutil.copyfile(file, made)
    give(made)


def _reached(file: Path) -> bool:
    return all(_may(folder, _ALL_MAY_ENTER) for folder in file.absolute().parents)


def _may(path: Path, what: int) -> bool:
    return bool(path.stat().st_mode & what)
