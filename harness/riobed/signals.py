# SPDX-License-Identifier: Apache-2.0
"""A process that is told to end cleans up first, as after Ctrl-C."""

import signal
import threading
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGHUP)


def clean_up_when_told_to_end() -> None:
    """Raise KeyboardInterrupt at the first SIGTERM or SIGHUP, so that guests end; ignore later ones.

    A signal that is ignored (nohup) or has a handler of its own keeps that. Python handles signals in its
    main thread only, so in another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _NUMBERS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # timeout(1) signals its command, and then the group that the command is in. The second signal would end
    # the clean-up.
    for each in _NUMBERS:
        if signal.getsignal(each) is _interrupt:
            signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt
