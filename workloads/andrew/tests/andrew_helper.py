# SPDX-License-Identifier: Apache-2.0
"""Running andrew, and an independent reading of what its processes report."""

import json
import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elsewhere import compare_elsewhere

SOURCE = Path(__file__).resolve().parents[1]
SEED = 1988
PROCESSES = 4
# The fewest that there are: rounds are short.
FILES = 8
QUICK = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}


@dataclass
class Process:
    """What one process has reported."""

    done: int = 0
    intent: int = 0
    failed: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    end: str | None = None


def read_progress(data: bytes) -> list[Process]:
    """The four streams of a log; a line that is no record fails the test, unless it is the last one."""
    processes = []
    for stream in range(PROCESSES):
        halves = [byte & 15 for byte in data if byte >> 4 == 8 + stream]
        text = bytes(a << 4 | b for a, b in zip(halves[::2], halves[1::2], strict=False)).decode("ascii")
        process = Process()
        for line in text.splitlines(keepends=True):
            match = re.fullmatch(r"([SIDFE]) (\d+) [0-9a-f]{8}(?: (.+))?\n", line)
            assert match or not line.endswith("\n"), line
            if match:
                take(process, match[1], int(match[2]), match[3] or "")
        processes.append(process)
    return processes


def take(process: Process, letter: str, step: int, words: str) -> None:
    if letter == "I":
        process.intent = step
    elif letter == "D":
        process.done = step
    elif letter == "E":
        process.failed.append(f"{step}:{words.split()[0]}")
        process.words.append(words)
    elif letter == "F":
        process.end = words


def reported(processes: list[Process]) -> list[str]:
    """These as options of verify."""
    intents = [process.intent if process.intent > process.done else 0 for process in processes]
    return [
        "--done", ",".join(str(process.done) for process in processes),
        "--intent", ",".join(map(str, intents)),
        "--failed", "/".join(",".join(process.failed) for process in processes),
    ]  # fmt: skip


class Andrew:
    """One andrew binary and the options that its tests share."""

    def __init__(self, binary: Path) -> None:
        self.binary = binary
        self.runs: list[subprocess.Popen[bytes]] = []

    def __call__(self, *args: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
        command = [str(self.binary), *map(str, args)]
        keywords = {"capture_output": True, "text": True, "timeout": 120, "env": QUICK, **keywords}
        return subprocess.run(command, check=False, **keywords)

    def start(self, root: Path, *args: object, **keywords: Any) -> subprocess.Popen[bytes]:
        """Prepare `root` and run there; progress goes to a file beside it."""
        assert self("prepare", "--dir", root).returncode == 0
        options = ["--dir", root, "--seed", SEED, "--files", FILES, "--progress", self.log(root), *args]
        command = [str(word) for word in [self.binary, "run", *options]]
        keywords = {"env": QUICK, "start_new_session": True, **keywords}
        self.runs.append(subprocess.Popen(command, **keywords))
        return self.runs[-1]

    def log(self, root: Path) -> Path:
        return root.with_suffix(".progress")

    def wait(self, root: Path, least: int) -> None:
        """Wait until every process has done that many steps."""
        deadline = time.monotonic() + 240
        while not self.log(root).exists() or min(p.done for p in self.processes(root)) < least:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def processes(self, root: Path) -> list[Process]:
        return read_progress(self.log(root).read_bytes())

    def run(self, root: Path, rounds: int, *args: object) -> list[Process]:
        """Run whole rounds."""
        assert self.start(root, "--rounds", rounds, *args).wait(240) in (0, 4)
        return self.processes(root)

    def verify(self, root: Path, processes: list[Process], **keywords: Any) -> dict[str, Any]:
        """What verify says, also if bytes are compared elsewhere; its exit status must go with it."""
        moment = ["--seed", SEED, "--files", FILES, "--scratch", root.parent, *reported(processes)]
        result = self("verify", "--dir", root, *moment, "--json", **keywords)
        assert result.returncode in (0, 3), result.stderr
        if not keywords:
            compare_elsewhere(self, self.binary, root, moment, ["--json"], result, QUICK)
        report: dict[str, Any] = json.loads(result.stdout)
        assert (result.returncode == 3) == (report["difference_count"] > 0)
        return report

    def differences(self, root: Path, processes: list[Process]) -> list[tuple[str, str]]:
        """Path and kind of each difference."""
        found = self.verify(root, processes)["differences"]
        return [(difference["path"], difference["kind"]) for difference in found]
