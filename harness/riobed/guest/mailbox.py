# SPDX-License-Identifier: Apache-2.0
"""A command put into the memory of a guest that stands still, for a shell that waits for it there.

Through the agent's channel it would come when the emulator's main loop has time, at another instruction
each time: QEMU gives that channel nothing while the guest is paused.
"""

import mmap
import re
import shlex

from riobed.errors import InfraError
from riobed.guest.layout import PAGE
from riobed.guest.registry import mapped
from riobed.vm import Machine

_PAGES = 4
_MARK = "riobed mailbox"
_HEAD = f"#{_MARK} ".encode()
_LINE = re.compile(_HEAD + rb"(\d) (\d+) *\n")
# Until the command is there each page is one line, a comment with its number and the shell's process id;
# the command begins with a line that is a colon. The mark is put together by the shell, so that no copy of
# this script has it.
_WAIT = f"""
for page in {" ".join(map(str, range(_PAGES)))}; do
    printf '%-{PAGE - 1}s\\n' "#$1 $page $$"
done >/run/mailbox
until read -r first </run/mailbox && [ "$first" = : ]; do sleep 0.02; done
. /run/mailbox
"""


def open_mailbox(machine: Machine) -> None:
    """Have a shell of the guest wait for a command; InfraError if it does not."""
    machine.spawn(["/bin/sh", "-c", _WAIT, "mailbox", _MARK])
    written = f"[ $(wc -c </run/mailbox) = {_PAGES * PAGE} ]"
    if machine.run(["/bin/sh", "-c", f"until {written}; do sleep 0.02; done"], timeout=30).status:
        raise InfraError(f"{machine.config.name}: the guest cannot make a mailbox")


def put_command(machine: Machine, argv: list[str], stdin: bytes) -> int:
    """Have a paused guest execute a command when it runs on; its process id there.

    InfraError if the command is too long, or no mailbox is found in the guest's memory.
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
    """Where in RAM each page of a mailbox lies, and the process id in it."""
    found = {}
    at = memory.find(_HEAD)
    while at >= 0:
        # Copies of a line in buffers begin elsewhere in a page.
        match = None if at % PAGE else _LINE.fullmatch(memory[at : at + PAGE])
        if match:
            found[int(match[1])] = (at, int(match[2]))
        at = memory.find(_HEAD, at + 1)
    return found
