# SPDX-License-Identifier: Apache-2.0
"""Write the corruptions of a campaign as cases for readers who must not know the mode."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from riobed_results.errors import StoreError, StoreUsageError
from riobed_results.files import write_whole
from riobed_results.store import CampaignRow, Logs, Results, TrialRow, in_order
from riobed_results.tables.crashes.stories import activated_faults, fault_text
from riobed_results.text import printable

from publishing.adjudication import CATEGORIES, cases, digest, template

INDEX = "cases.json"
HIDDEN = "[hidden]"
# Words by which the kernel and its tools name what only some modes have: a cache that survives, protection, a
# journal. ext4's own functions for a journal are called without one, too.
_TELLING = re.compile(r"\b_*rio(?!bed)\w*|\bprotection trap|\b\w*jbd2\w*|\bjournal\w*", re.IGNORECASE)
# Lines that say how the file system was mounted, and what recovery had to do.
_LINES = re.compile(r"^riorecover:|: mounted filesystem |[Cc]ommand line: ")
# The recovery kernel's own start says nothing about the crash.
_BOOT, _READY = re.compile(r"^\[ *0\.0+\] Linux version "), "riobed: stage 0"
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def write_cases(results: Results, logs: Logs, folder: Path, seed: int) -> int:
    """Write a case for each corruption, an index and a form for the answers; return the number of cases.

    The folder must be new or empty: StoreUsageError. StoreError if a log cannot be read or a file written.
    """
    found = cases(results, seed)
    hide = Hider(results.campaign, found.values())
    try:
        if folder.exists() and any(folder.iterdir()):
            raise StoreUsageError(f"folder {folder}: is not empty; give a new one, or two files of answers")
        folder.mkdir(parents=True, exist_ok=True)
        for case, row in found.items():
            log = hide.log(logs.read(row.log)) if row.log else ""
            text = "\n".join(_case(case, row, hide, len(log.splitlines())))
            write_whole(folder / f"case-{case}.md", f"{text}\n".encode())
            write_whole(folder / f"case-{case}.log", log.encode())
        index = {"campaign": results.campaign.name, "cases": len(found), "sha256": digest_of(results, seed)}
        write_whole(folder / INDEX, (json.dumps(index, indent=1) + "\n").encode())
        write_whole(folder / "answers.csv", template(list(found)).encode())
        write_whole(folder / "README.md", _readme(len(found)).encode())
    except OSError as error:
        raise StoreError(f"folder {folder}: {error.strerror}; choose another") from error
    return len(found)


def digest_of(results: Results, seed: int) -> str:
    """Return the hash of a campaign's cases in the order of a seed."""
    return digest(results.campaign.name, cases(results, seed))


def check_cases(folder: Path, results: Results, seed: int) -> None:
    """Raise StoreError unless the folder has the cases of this campaign in the order of this seed."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {error}; write the cases first, without files of answers") from None
    if not isinstance(index, dict) or index.get("sha256") != digest_of(results, seed):
        raise StoreError(f"{path}: is of another campaign or seed; give those that the cases were made with")


class Hider:
    """Removes from a text what names the mode."""

    def __init__(self, campaign: CampaignRow, rows: Iterable[TrialRow]) -> None:
        modes = in_order(campaign, "modes", (row.mode for row in rows))
        names = "|".join(re.escape(mode) for mode in sorted(modes, key=len, reverse=True))
        self._modes = re.compile(rf"(?<!\w)(?:{names})(?!\w)", re.IGNORECASE)

    def __call__(self, text: str) -> str:
        """Return a line without names of modes and telling words, and without control characters."""
        return printable(_TELLING.sub(HIDDEN, self._modes.sub(HIDDEN, text)))

    def log(self, log: bytes) -> str:
        """Return a console log without the recovery kernel's start and without telling lines."""
        lines = _ESCAPES.sub("", log.decode(errors="replace")).replace("\r", "").splitlines()
        return "".join(f"{self(line)}\n" for line in _without_boot(lines) if not _LINES.search(line))


def _without_boot(lines: Iterable[str]) -> Iterator[str]:
    booting = False
    for line in lines:
        booting = (booting or bool(_BOOT.search(line))) and not line.startswith(_READY)
        if not booting:
            yield line


def _case(case: str, row: TrialRow, hide: Hider, lines: int) -> Iterator[str]:
    """Yield the lines of a case: neither mode nor position, seed, worker or kind of corruption.

    The position would tell the mode, and so would a kind that only some modes can have.
    """
    yield f"# Case {case}\n"
    yield f"- Fault class: {row.fault_class}, {row.injected} faults injected"
    activated, crash = activated_faults(row)
    yield from (f"- Activated: {hide(fault_text(fault, crash))}" for fault in activated)
    seconds = f", {crash.seconds:.2f} s after injection by the {crash.clock}'s clock" if crash else ""
    yield f"- Ended: {hide(row.crash_title or row.outcome)}{seconds}"
    yield f"- The workload: {hide(row.workload_error or row.workload_status or 'said nothing')}"
    yield f"- Steps done: {row.steps_done}"
    yield f"- Log: case-{case}.log, {lines} lines\n\nWhat differs:\n"
    if row.check is None:
        yield "- nothing could be checked"
        return
    yield from (f"- {hide(str(difference))}" for difference in row.check.differences)
    more = (row.check.difference_count or 0) - len(row.check.differences)
    if more > 0:
        yield f"- {more} more"


def _readme(count: int) -> str:
    meanings = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in CATEGORIES.items())
    return (
        f"# {count} corruptions to adjudicate\n\nCopy `answers.csv`. Give each case one category, and say in "
        "your own words what happened. Do not talk to the other reader before both are done, and do not look "
        f"into the store.\n\n| category | meaning |\n|---|---|\n{meanings}\n"
    )
