# SPDX-License-Identifier: Apache-2.0
"""`riobed shell` and `riobed guest run`: a guest for a terminal or for one command."""

import os
import select
import shlex
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from riobed.errors import UsageError
from riobed.guest import check_mode, copy_in, find_mode, guest_setup, open_guest
from riobed.vm import HasTerminal, Machine

_ESCAPE = b"\x1d"  # Ctrl-]


@contextmanager
def _booted(mode: str, file: Path | None, uri: str | None, interactive: bool) -> Iterator[Machine]:
    wanted = find_mode(mode, file)
    setup = guest_setup(wanted.default_machine(), uri)
    check_mode(mode, wanted, setup)
    guest = open_guest(setup, wanted, f"guest-{mode}", interactive)
    try:
        guest.boot()
        yield guest.machine
    finally:
        guest.discard()


def shell(mode: str, file: Path | None, uri: str | None) -> None:
    """Connect this terminal to a new guest's console until Ctrl-] or power-off; `file` has more modes."""
    if not sys.stdin.isatty():
        raise UsageError("riobed shell needs a terminal; for commands use 'riobed guest run'")
    print(f"Starting a guest in mode {mode} (about 10 s) ...", file=sys.stderr)
    with _booted(mode, file, uri, interactive=True) as machine:
        print(
            "The file system under test is at /mnt/test. Ctrl-] leaves and ends the guest.", file=sys.stderr
        )
        _join_terminal(machine)


def _join_terminal(machine: Machine) -> None:
    if not isinstance(machine, HasTerminal):
        raise UsageError("riobed shell: the machines of this --connect have no terminal")
    console = os.open(machine.console_device(), os.O_RDWR | os.O_NOCTTY)
    stdin = sys.stdin.fileno()
    saved = termios.tcgetattr(stdin)
    try:
        tty.setraw(stdin)
        os.write(console, b"\n")
        while machine.alive():
            ready, _, _ = select.select([stdin, console], [], [], 1.0)
            if console in ready:
                os.write(sys.stdout.fileno(), os.read(console, 4096))
            if stdin in ready:
                typed = os.read(stdin, 1024)
                if not typed or _ESCAPE in typed:
                    return
                os.write(console, typed)
    except OSError:
        # The other end of the console is gone: the guest was powered off.
        return
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, saved)
        os.close(console)


def guest_run(
    mode: str, file: Path | None, command: list[str], put: list[str], timeout: float, uri: str | None
) -> int:
    """Run a command in a new guest, in the root of the file system under test; return its exit status.

    The mode is shipped or defined in `file`. Each entry of `put` is SRC:DST: a file or folder on the host and
    its path in the guest.
    """
    copies = [parse_put(entry) for entry in put]
    with _booted(mode, file, uri, interactive=False) as machine:
        for source, target in copies:
            copy_in(machine, source, target)
        result = machine.run(
            ["/bin/sh", "-c", f"cd /mnt/test && exec {shlex.join(command)}"], timeout=timeout
        )
    sys.stdout.buffer.write(result.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(result.stderr)
    return result.status


def parse_put(entry: str) -> tuple[Path, str]:
    """Split SRC:DST into source and target; UsageError if it has another form or SRC does not exist."""
    source, colon, target = entry.partition(":")
    if not source or not colon or not target.startswith("/") or not target.strip("/"):
        raise UsageError(f"--put {entry}: want SRC:DST, where DST is an absolute path in the guest")
    if not Path(source).exists():
        raise UsageError(f"--put {entry}: {source} does not exist")
    return Path(source), target
