# SPDX-License-Identifier: Apache-2.0
"""Recording/Record: runs a command under strace, and writes the trace of what it did to files."""

import fcntl
import os
import platform
import select
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import FrameType

from riobed_caches.errors import CachesError, TraceError
from riobed_caches.recording.calls.table import MEANINGS
from riobed_caches.recording.strace import parse_strace
from riobed_caches.recording.tracker import Inherited, Start
from riobed_caches.trace.events import Flag
from riobed_caches.trace.file import Trace, write_trace
from riobed_caches.trace.header import Loss

# `?` leaves out calls that this architecture does not have. With a seccomp filter, only these calls stop the
# command (strace(1)).
_OPTIONS = ["-f", "--seccomp-bpf", "-ttt", "-y", "-s0"]
_OPTIONS += ["-e", "trace=" + ",".join(f"?{name}" for name in MEANINGS)]
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_FROM_A_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_CHUNK = 1 << 20
_WAIT_MS = 100


@dataclass(frozen=True)
class Recorded:
    """A recording: the trace, and the exit status of the command, 128 + the signal that killed it."""

    status: int
    trace: Trace


def record(command: list[str], out: Path, keep_names: bool = False) -> Recorded:
    """Run `command`, and write to `out` what it and the processes that it starts did to files.

    It needs no rights but ptrace(2), and ends when all these processes have ended. Programs with a
    set-user-id bit run without its rights. SIGINT, SIGQUIT, SIGTERM and SIGHUP are passed on to the command,
    and do not end the recording. Names of files are hashed, unless `keep_names`. Raises TraceError if the
    command is no program, CachesError if strace cannot be used, or the trace cannot be written.
    """
    if not command or shutil.which(command[0]) is None:
        raise TraceError(out, f"{(command or [''])[0]!r} is no program", "give a command that can be run")
    recorder = _check_strace()
    start = _start()
    with _folder(out) as folder, _signals() as tracers:
        log = folder / "log"
        status, lost = _run(command, log, folder / "lines", tracers)
        with log.open("rb") as lines:
            trace = parse_strace(_whole(lines), keep_names=keep_names, start=start)
        about = {
            "recorder": recorder,
            "source": f"command {Path(command[0]).name}",
            "kernel": " ".join(platform.uname()[i] for i in (0, 2, 3, 4)),
            "lost": [Loss(time=_last(trace), events=lost, why="no room for the log")] if lost else [],
        }
        trace = Trace(trace.header.model_copy(update=about), trace.columns)
        _write(out, trace, log)
    return Recorded(status, trace)


@contextmanager
def _folder(out: Path) -> Iterator[Path]:
    """Give a folder beside the trace, with the pipe that lines come through."""
    try:
        folder = tempfile.TemporaryDirectory(dir=out.resolve().parent, prefix=f".{out.name}.")
        os.mkfifo(Path(folder.name) / "lines")
    except OSError as error:
        raise CachesError(f"trace {out}: {error.strerror}; choose another place") from None
    with folder as name:
        yield Path(name)


def _write(out: Path, trace: Trace, log: Path) -> None:
    """Write the trace; if there is no room for it, in place of the log."""
    try:
        write_trace(out, trace)
    except CachesError:
        log.unlink()
        write_trace(out, trace)


def _check_strace() -> str:
    """Return strace's name and version. CachesError if it is missing, too old, or not permitted."""
    strace = shutil.which("strace")
    if strace is None:
        raise CachesError("record: strace is missing; install it (apt install strace)")
    tried = subprocess.run(
        [strace, *_OPTIONS, "-o", os.devnull, "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        said = (tried.stderr.splitlines() or ["it failed"])[-1]
        raise CachesError(f"record: {said}; allow ptrace (SYS_PTRACE in a container), or install strace 5.3")
    version = subprocess.run([strace, "-V"], capture_output=True, text=True, check=True).stdout.split()
    return f"strace {version[3]}"


def _run(command: list[str], log: Path, fifo: Path, tracers: list[int]) -> tuple[int, int]:
    """Run the command, and return its exit status, and how many lines were lost as the disk was full.

    The lines come through a pipe: strace itself prints an error for each line that finds no room, and goes on
    in the middle of a line when there is room again.
    """
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with log.open("wb", buffering=0) as kept:
            process = subprocess.Popen(["strace", *_OPTIONS, "-o", str(fifo), "--", *command])
            tracers.append(process.pid)
            lost = _copy(reader, kept, process)
            code = process.wait()
    finally:
        os.close(reader)
    return (code if code >= 0 else 128 - code), lost


def _copy(reader: int, log: FileIO, process: subprocess.Popen[bytes]) -> int:
    """Copy lines until strace ends; from the first that finds no room on, count them instead."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    lost, full = 0, False
    while True:
        happened = dict(poll.poll(_WAIT_MS)).get(reader, 0)
        if happened & select.POLLIN:
            chunk = os.read(reader, _CHUNK)
            rest = chunk if full else _append(log, chunk)
            full = full or bool(rest)
            lost += rest.count(b"\n")
        elif happened or process.poll() is not None:
            return lost


def _append(log: FileIO, chunk: bytes) -> bytes:
    """Write what there is room for, and return the rest."""
    try:
        while chunk:
            chunk = chunk[log.write(chunk) :]
    except OSError:
        pass
    return chunk


def _whole(lines: Iterable[bytes]) -> Iterator[bytes]:
    return (line for line in lines if line.endswith(b"\n"))


def _last(trace: Trace) -> int:
    return int(trace.time[-1]) if len(trace) else 0


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Pass signals on to the command of each strace whose number the block adds; none ends the block."""
    tracers: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if number in _FROM_A_TERMINAL and _has_terminal():
            return  # the terminal sends them to the command, too
        for tracer in tracers:
            traced = _traced(tracer)
            # After the command itself has ended, what it left running is meant.
            for pid in [pid for pid, parent in traced if parent == tracer] or [pid for pid, _ in traced]:
                os.kill(pid, number)

    before = {number: signal.getsignal(number) for number in _PASSED_ON}
    for number in _PASSED_ON:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        yield tracers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_terminal() -> bool:
    """Say whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _traced(tracer: int) -> list[tuple[int, int]]:
    """Return the processes that a process traces, each with its parent."""
    found = []
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        except OSError:
            continue  # it ended
        if int(lines["TracerPid"]) == tracer:
            found.append((int(lines["Pid"]), int(lines["PPid"])))
    return found


def _start() -> Start:
    """Return the regular files that the command will have open as its standard files."""
    same: dict[tuple[int, int, int, int], list[int]] = {}
    for fd in range(3):
        try:
            about = os.fstat(fd)
            if stat.S_ISREG(about.st_mode):
                position, flags = os.lseek(fd, 0, os.SEEK_CUR), fcntl.fcntl(fd, fcntl.F_GETFL)
                same.setdefault((about.st_dev, about.st_ino, position, flags), []).append(fd)
        except OSError:
            continue  # it is closed
    # Two descriptors at one position of one file are most likely one opening, as with `>log 2>&1`.
    inherited = [_inherited(fds, position, flags) for (_, _, position, flags), fds in same.items()]
    return Start(os.fsencode(Path.cwd()), os.geteuid(), tuple(inherited))


def _inherited(fds: list[int], position: int, how: int) -> Inherited:
    access = how & os.O_ACCMODE
    flags = Flag.NONE if access == os.O_WRONLY else Flag.FOR_READING
    flags |= Flag.NONE if access == os.O_RDONLY else Flag.FOR_WRITING
    return Inherited(
        fds=tuple(fds),
        path=os.fsencode(Path(f"/proc/self/fd/{fds[0]}").readlink()),
        position=position,
        size=os.fstat(fds[0]).st_size,
        flags=flags,
        append=bool(how & os.O_APPEND),
    )
