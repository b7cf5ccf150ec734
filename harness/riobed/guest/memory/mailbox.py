# SPDX-License-Identifier: Apache-2.0
"""Give a paused guest a command through its memory, where a shell waits for it.

A command through the agent's channel would arrive at a different instruction each time: QEMU delivers nothing
to that channel while the guest is paused, and later whenever the emulator's main loop gets to it.
"""

import mmap
import re
import shlex

from riobed.errors import InfraError
from riobed.guest.memory.layout import PAGE
from riobed.guest.memory.registry import mapped
from riobed.vm import Machine

_PAGES = 4
_MARK = "riobed mailbox"
_HEAD = f"#{_MARK} ".encode()
_LINE = re.compile(_HEAD + rb"(\d) (\d+) *\n")
# Before the command arrives, each page is one line: a comment with the page's number and the shell's process
# id. The command's first line is a colon. The shell assembles the mark, so copies of this script lack it.
_WAIT = f"""
for page in {" ".join(map(str, range(_PAGES)))}; do
    printf '%-{PAGE - 1}s\\n' "#$1 $page $$"
done >/run/mailbox
until read -r first </run/mailbox && [ "$first" = : ]; do sleep 0.02; done
. /run/mailbox
"""


def open_mailbox(machine: Machine) -> None:
    """Start a shell in the guest that waits for a command; InfraError if that fails."""
    machine.spawn(["/bin/sh", "-c", _WAIT, "mailbox", _MARK])
    written = f"[ $(wc -c </run/mailbox) = {_PAGES * PAGE} ]"
    if machine.run(["/bin/sh", "-c", f"until {written}; do sleep 0.02; done"], timeout=30).status:
        raise InfraError(f"{machine.config.name}: the guest cannot make a mailbox")


def put_command(machine: Machine, argv: list[str], stdin: bytes) -> int:
    """Give a paused guest a command, which it executes when it resumes; return the process id in the guest.

    InfraError if the command is too long, or if the guest's memory holds no mailbox.
    """
    text = f":\nexec {shlex.join(argv)} <<'stdin'\n{stdin.decode()}stdin\n".encode()
    if len(text) > _PAGES * PAGE:
        raise InfraError(f"{machine.config.name}: a command of {len(text)} bytes is too long for the mailbox")
    text = text.ljust(_PAGES * PAGE, b"\n")
    with mapped(machine.ram_path()) as memory:
        places = find_mailbox(memory)
        if sorted(places) != list(range(_PAGES)):
            raise InfraError(f"{machine.config.name}: the guest's mailbox is not in its memory")
        for page, (place, _) in places.items():
            memory[place : place + PAGE] = text[page * PAGE : (page + 1) * PAGE]
    return places[0][1]


def find_mailbox(memory: mmap.mmap | bytes) -> dict[int, tuple[int, int]]:
    """Map each mailbox page's number to its address in RAM and the process id that it holds."""
    found = {}
    at = memory.find(_HEAD)
    while at >= 0:
        # A copy of the line in some buffer does not start at a page boundary.
        match = None if at % PAGE else _LINE.fullmatch(memory[at : at + PAGE])
        if match:
            found[int(match[1])] = (at, int(match[2]))
        at = memory.find(_HEAD, at + 1)
    return found
