# SPDX-License-Identifier: Apache-2.0
"""The user that QEMU runs as when riobed is run by root, and the files that this user is given.

A guest under fault injection executes random code, and so may its QEMU.

libvirt's own setting, `user` in qemu.conf, is not used. libvirt runs as root here and can open a /dev/kvm
that belongs to root alone; QEMU as another user cannot. When the two differ, libvirt probes its capabilities
again and again: 60 s for each start on a busy host, measured with libvirt 9.0. So libvirt starts a script as
root; the script gives up all privileges and becomes QEMU.
"""

import errno
import os
import pwd
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

from riobed.errors import EnvironmentFault

# The second is libvirt's own user, for hosts that an earlier version set up.
_NAMES = ("riobed-qemu", "libvirt-qemu")
_ALL_MAY_READ, _ALL_MAY_ENTER = 0o004, 0o001

# The folders of the RAM and of libvirt's master key (which would encrypt secrets) stay root's; QEMU gets one
# file in each. libvirt sets HOME to the latter, SCRATCH/libvirt/lib/qemu/domain-DOMAIN; the former is one of
# riobed.vm.host.scratch. They are not in the text because all processes share one script.
_DROP = """\
scratch=${{HOME%/libvirt/lib/qemu/*}}
domain=${{HOME##*/domain-}}
for folder in {shared}/"${{scratch##*/}}"/libvirt/qemu/*"$domain" \\
		"$scratch"/memory/libvirt/qemu/*"$domain"; do
	[ -d "$folder" ] || continue
	[ -e "$folder/{ram}" ] || : >"$folder/{ram}"
	chown {user} "$folder/{ram}" && chmod 711 "$folder" || exit
done
[ ! -e "$HOME/master-key.aes" ] || chown {user} "$HOME/master-key.aes" || exit
chmod 711 "$HOME" || exit
set -- {become} "$@"
"""


@cache
def qemu_user() -> pwd.struct_passwd | None:
    """Return the user for QEMU; None if riobed is not run by root, because QEMU then runs as the caller.

    EnvironmentFault if the host has no such user.
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
def drop_script(shared: Path, ram: str) -> str:
    """Return shell lines that drop root's privileges for the command in the script's arguments.

    `shared` is the host's shared memory, where guests' RAM may be, and `ram` the name of its file. Where the
    host allows it, the command also gets its own mount, network and IPC namespaces. "" if we are not root.
    """
    user = qemu_user()
    if not user:
        return ""
    namespaces = ["unshare", "--mount", "--net", "--ipc", "--"]
    allowed = not subprocess.run([*namespaces, "true"], capture_output=True).returncode
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--init-groups"]
    become += ["--inh-caps=-all", "--no-new-privs", "--"]
    return _DROP.format(
        shared=shlex.quote(str(shared)),
        ram=ram,
        user=f"{user.pw_uid}:{user.pw_gid}",
        become=shlex.join([*(namespaces if allowed else []), *become]),
    )


def open_folder(folder: Path) -> None:
    """Make a folder in which QEMU's user can open files, but not list or create any."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)


def give(*files: Path) -> None:
    """Make QEMU's user the owner of files."""
    if user := qemu_user():
        for file in files:
            os.chown(file, user.pw_uid, user.pw_gid)


def readable(file: Path, folder: Path) -> Path:
    """Return a path at which QEMU's user can read `file`.

    If it cannot reach `file` itself (below /root, say), that is a link to it or a copy of it in `folder`.
    EnvironmentFault if QEMU's user cannot reach `folder`, either.
    """
    if not qemu_user() or (_may(file, _ALL_MAY_READ) and _reached(file)):
        return file
    open_folder(folder)
    place = folder / f"{file.stat().st_ino}-{file.name}"
    if not _reached(place):
        raise EnvironmentFault(f"{folder}: QEMU's user cannot reach it; set RIOBED_SCRATCH to an open folder")
    if not place.exists():
        made = folder / f"{place.name}.{os.urandom(4).hex()}"
        _link_or_copy(file, made)
        made.replace(place)
    return place


def readable_program(program: Path, folder: Path) -> Path:
    """Return a path at which QEMU's user can run `program`, which needs nothing but what is in its folder."""
    if not qemu_user() or _reached(program):
        return program
    open_folder(folder)
    place = folder / program.parent.name
    if not place.exists():
        made = folder / f"{place.name}.{os.urandom(4).hex()}"
        shutil.copytree(program.parent, made, symlinks=True, copy_function=_link_or_copy)
        for each in (made, *(path for path in made.rglob("*") if path.is_dir() and not path.is_symlink())):
            each.chmod(0o755)
        try:
            made.replace(place)
        except OSError as error:
            # Another worker was first: a folder does not take the place of one that has files.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            shutil.rmtree(made)
    return place / program.name


def _link_or_copy(file: str | Path, made: str | Path) -> None:
    if _may(Path(file), _ALL_MAY_READ):
        try:
            os.link(file, made)
            return
        except OSError:  # another file system
            pass
    shutil.copy(file, made)
    give(Path(made))


def _reached(file: Path) -> bool:
    return all(_may(folder, _ALL_MAY_ENTER) for folder in file.absolute().parents)


def _may(path: Path, what: int) -> bool:
    return bool(path.stat().st_mode & what)
