# SPDX-License-Identifier: Apache-2.0
"""Workloads to record: what one person does with real programs for some minutes, pauses included.

    riobed trace record --out build.parquet -- python3 workloads/recorded/work.py build /tmp/build

The folder must not exist. It stays, because its removal would be a part of the workload. Choices and pauses
follow from --seed. Needs git, cc and make for `build`, vim for `editor`.
"""

import argparse
import os
import pty
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
# C programs of the project that compile without its kernel.
SOURCES = CHECKOUT / "workloads" / "sweep"


def build(folder: Path, chance: random.Random, end: float) -> None:
    """Edit, compile and commit C programs: one person at a compiler."""
    tree = folder / "tree"
    shutil.copytree(SOURCES, tree)

    def run(*command: str) -> None:
        subprocess.run(command, cwd=tree, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    run("git", "init", "-q")
    run("git", "config", "user.email", "someone@example.org")
    run("git", "config", "user.name", "Someone")
    number = 0
    while time.monotonic() < end:
        number += 1
        file = chance.choice(sorted(tree.glob("*.c")))
        file.write_text(f"{file.read_text()}/* change {number} */\n")
        if chance.random() < 0.2:
            run("make", "clean")
        objects = [name.stem for name in sorted(tree.glob("*.c"))]
        for name in objects:
            if name == file.stem or not (tree / f"{name}.o").exists():
                run("cc", "-O2", "-g", "-pipe" if chance.random() < 0.5 else "-save-temps", "-c", f"{name}.c")
        run("cc", "-o", "program", *(f"{name}.o" for name in objects))
        if number % 4 == 0:
            run("git", "add", "-A")
            run("git", "commit", "-qm", f"change {number}")
        pause(chance.uniform(2, 20), end)


def editor(folder: Path, chance: random.Random, end: float) -> None:
    """Type text into vim, with its swap file, and save now and then."""
    words = (CHECKOUT / "README.md").read_text().split()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvp("vim", ["vim", "-u", "NONE", "-c", "set nocompatible backup swapfile", "letter.txt"])

    def keys(text: str) -> None:
        os.write(terminal, text.encode())
        os.set_blocking(terminal, False)
        try:
            while os.read(terminal, 65536):
                pass
        except BlockingIOError:
            pass
        os.set_blocking(terminal, True)

    pause(1, end)
    keys("i")
    while time.monotonic() < end:
        keys(chance.choice(words) + chance.choice([" ", " ", " ", " ", "\n"]))
        pause(chance.uniform(0.1, 0.6), end)
        if chance.random() < 0.02:
            # Leave typing, save, think, go on.
            keys("\x1b:w\r")
            pause(chance.uniform(5, 25), end)
            keys("o")
    keys("\x1b:wq\r")
    time.sleep(1)
    os.kill(pid, signal.SIGHUP)
    os.waitpid(pid, 0)


def database(folder: Path, chance: random.Random, end: float) -> None:
    """Keep messages in SQLite with a rollback journal: a chat or mail program."""
    with sqlite3.connect(folder / "messages.sqlite") as base:
        base.execute("PRAGMA synchronous=FULL")
        base.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, peer INTEGER, seen INTEGER, text TEXT)")
        base.execute("CREATE INDEX by_peer ON message (peer)")
    number = 0
    while time.monotonic() < end:
        with base:
            for _ in range(chance.choice([1, 1, 1, 3, 20])):
                number += 1
                text = "x" * int(chance.lognormvariate(4, 1))
                base.execute("INSERT INTO message VALUES (?, ?, 0, ?)", (number, chance.randrange(40), text))
            if chance.random() < 0.3:
                base.execute("UPDATE message SET seen = 1 WHERE peer = ?", (chance.randrange(40),))
            if chance.random() < 0.05:
                base.execute("DELETE FROM message WHERE id < ?", (number - 2000,))
        pause(chance.expovariate(1.0), end)
    base.close()


def pause(seconds: float, end: float) -> None:
    """Sleep, but not past the end."""
    time.sleep(max(min(seconds, end - time.monotonic()), 0))


KINDS: dict[str, Callable[[Path, random.Random, float], None]] = {
    "build": build,
    "editor": editor,
    "database": database,
}


def main() -> None:
    """Run one of the workloads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=660)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True)
    KINDS[given.kind](given.folder.resolve(), random.Random(given.seed), time.monotonic() + given.seconds)


if __name__ == "__main__":
    main()
