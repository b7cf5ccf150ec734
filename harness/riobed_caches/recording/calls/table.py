# SPDX-License-Identifier: Apache-2.0
"""Recording/Calls/Table: which calls are recorded, and what each means."""

from collections.abc import Callable

from riobed_caches.recording.calls import changing, moving, naming, opening
from riobed_caches.recording.lines import Call
from riobed_caches.recording.tasks import Task
from riobed_caches.recording.tracker import Tracker

MEANINGS: dict[str, Callable[[Tracker, Task, Call], None]] = {
    "open": opening.open_,
    "openat": opening.openat,
    "openat2": opening.openat2,
    "creat": opening.creat,
    "close": opening.close,
    "close_range": opening.close_range,
    "dup": opening.dup,
    "dup2": opening.dup,
    "dup3": opening.dup,
    "fcntl": opening.fcntl,
    "ioctl": opening.ioctl,
    "fork": opening.clone,
    "vfork": opening.clone,
    "clone": opening.clone,
    "clone3": opening.clone,
    "execve": opening.execve,
    "execveat": opening.execve,
    "chdir": opening.chdir,
    "fchdir": opening.fchdir,
    "read": moving.read,
    "pread64": moving.pread,
    "write": moving.write,
    "pwrite64": moving.pwrite,
    "readv": moving.vector,
    "preadv": moving.vector,
    "preadv2": moving.vector,
    "writev": moving.vector,
    "pwritev": moving.vector,
    "pwritev2": moving.vector,
    "sendfile": moving.sendfile,
    "splice": moving.splice,
    "copy_file_range": moving.splice,
    "lseek": moving.lseek,
    "ftruncate": changing.ftruncate,
    "truncate": changing.truncate,
    "fallocate": changing.fallocate,
    "fsync": changing.fsync,
    "fdatasync": changing.fsync,
    "msync": changing.msync,
    "sync": changing.sync,
    "syncfs": changing.sync,
    "mmap": changing.mmap,
    "io_uring_setup": changing.io_uring,
    "io_setup": changing.aio,
    "unlink": naming.unlink,
    "unlinkat": naming.unlinkat,
    "rename": naming.rename,
    "renameat": naming.renameat,
    "renameat2": naming.renameat,
    "link": naming.link,
    "linkat": naming.linkat,
    "stat": naming.stat,
    "lstat": naming.stat,
    "fstat": naming.stat,
    "newfstatat": naming.stat,
    "statx": naming.stat,
}
_LOOKUPS = ("open", "openat", "openat2", "stat", "lstat", "newfstatat", "statx")


def apply(tracker: Tracker, task: Task, call: Call) -> None:
    """Apply a call of MEANINGS. ValueError or IndexError if its arguments are not those that it has."""
    # A close(2) that fails has freed its descriptor, too.
    if call.result >= 0 or call.name == "close":
        MEANINGS[call.name](tracker, task, call)
    elif call.name in _LOOKUPS and call.shown.startswith(b" ENOENT"):
        naming.absent(tracker, task, call)
