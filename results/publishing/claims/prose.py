# SPDX-License-Identifier: Apache-2.0
"""Find the figures of a README that no claim backs.

A figure is a number in digits. Code, comments, headings, link targets, dates, times of day and names that
contain digits (`x86-64`) are ignored. A claim backs a figure where the claim's whole text occurs, including
noun and unit. A claim that is a bare number backs only a whole table cell. Three comments in a README make
exceptions:

- `<!-- not claims (REASON): PHRASE; PHRASE -->`: the phrases are not results of the rows, e.g. the paper's.
- `<!-- claims of FOLDER: PHRASE; PHRASE -->`: another folder's rows give the phrases; they are checked there.
- `<!-- not from rows: WHY -->` to `<!-- /not from rows -->`: the text was read from logs by people, or was
  never stored. A table of causes in it must have each corruption. A line may have several trials:
  `| 3, 7 | rio, delayed; pointer | why |`.

On other pages only the text between `<!-- claims: FOLDER -->` and `<!-- /claims -->` is checked.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from publishing.claims.claim import Claim

_NOT_CLAIMS = re.compile(r"<!-- not claims \([^)]+\):(.*?)-->", re.DOTALL)
_NOT_ROWS = re.compile(r"<!-- not from rows:.*?-->.*?<!-- /not from rows -->", re.DOTALL)
_BORROWED = re.compile(r"<!-- claims of ([\w-]+):(.*?)-->", re.DOTALL)
_OF_FOLDER = re.compile(r"<!-- claims: ([\w-]+) -->(.*?)<!-- /claims -->", re.DOTALL)
_NO_FIGURES = (
    re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`]*`"),
    re.compile(r"(?<=\])\([^)]*\)"),
    re.compile(r"^#.*$", re.MULTILINE),
    re.compile(r"\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d\b"),
)
_CAUSE = re.compile(r"\| *(\d[\d, ]*?) *\| *([a-z][^|]*)\|")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_FIGURE = re.compile(r"\d[\d.,]*")
_BARE = re.compile(r"[\d.]+( %)?")
_GONE = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Prose:
    """A README, or a part of one."""

    text: str

    def parts(self) -> list[tuple[str, "Prose"]]:
        """Return the parts marked as claims of a folder, each with the folder's name."""
        return [(name, Prose(text)) for name, text in _OF_FOLDER.findall(self.text)]

    @cached_property
    def exceptions(self) -> list[str]:
        """The phrases whose figures are not results of this folder."""
        texts = [*_NOT_CLAIMS.findall(self.text), *(phrases for _, phrases in _BORROWED.findall(self.text))]
        return [phrase for text in texts for phrase in _phrases(text)]

    def borrowed(self) -> list[tuple[str, str]]:
        """Return each phrase with a figure of another folder, as (folder's name, phrase)."""
        return [(name, phrase) for name, text in _BORROWED.findall(self.text) for phrase in _phrases(text)]

    def unbacked(self, claims: Iterable[Claim]) -> list[str]:
        """Return each figure that neither a claim nor an exception covers, with the words around it."""
        left = _readable(_NOT_ROWS.sub("", self.text))
        texts = {*(claim.text for claim in claims), *self.exceptions}
        for text in sorted(texts, key=len, reverse=True):
            left = _pattern(text).sub(_GONE, left)
        left = _NAME.sub(lambda name: re.sub(r"\d", "x", name.group()), left)
        return [left[max(0, m.start() - 40) : m.end() + 30] for m in _FIGURE.finditer(left)]

    def stale(self) -> list[str]:
        """Return the exceptions that cover nothing."""
        readable = _readable(_NOT_ROWS.sub("", self.text))
        return [phrase for phrase in self.exceptions if not _pattern(phrase).search(readable)]

    def untold(self, claims: Iterable[Claim]) -> list[str]:
        """Return the corruptions without a cause in the table of causes; empty if there is no such table."""
        causes = _CAUSE.findall(" ".join(map(_flat, _NOT_ROWS.findall(self.text))))
        told = [(set(numbers.split(", ")), where) for numbers, where in causes]
        texts = [claim.text for claim in claims if claim.key.startswith("corruption_")]
        missing = [f"| {text} |" for text in texts if not _is_told(text, told)]
        return missing if len(missing) < len(texts) else []


def unbacked(folder: Path, claims: Iterable[Claim]) -> list[str]:
    """Return the figures of a folder's README that its claims do not back; empty if it has no README."""
    readme = folder / "README.md"
    return Prose(readme.read_text(encoding="utf-8")).unbacked(claims) if readme.exists() else []


def _is_told(corruption: str, told: list[tuple[set[str], str]]) -> bool:
    """Return whether a line has the trial `NUMBER | MODE, CLASS`, with its class."""
    number, where = corruption.split(" | ")
    return any(number in numbers and where.rsplit(", ")[-1] in place for numbers, place in told)


def _phrases(text: str) -> list[str]:
    return [phrase for each in text.split(";") if (phrase := _flat(each))]


def _readable(text: str) -> str:
    for pattern in _NO_FIGURES:
        text = pattern.sub(_GONE, text)
    return _flat(text)


def _flat(text: str) -> str:
    return " ".join(text.replace("*", "").split())


def _pattern(text: str) -> re.Pattern[str]:
    if _BARE.fullmatch(text):
        return re.compile(rf"(?<=\| ){re.escape(text)}(?= \|)")
    return re.compile(rf"(?<![\w.,-]){re.escape(text)}(?!\w)(?![.,]\d)")
