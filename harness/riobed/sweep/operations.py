# SPDX-License-Identifier: Apache-2.0
"""The operations of a sweep (workloads/sweep), and what of a file may be in between."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from riobed.errors import UsageError, complaint
from riobed.products import CHECKOUT
from riobed.yamltext import parse_yaml

OPERATIONS = CHECKOUT / "workloads/sweep/operations.yaml"
# What the operation works in, what the task beside it works in, and what nothing changes.
PLACES = ("it", "beside", "other")


class Operation(BaseModel):
    """One operation: steps that prepare it, and the steps that are crashed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    act: str
    prepare: str = ""
    between: Literal["", "written", "mixed"] = ""


def load_operations(path: Path = OPERATIONS) -> dict[str, Operation]:
    """Return the operations of a file by name; UsageError if it is not valid."""
    try:
        data = parse_yaml(path.read_bytes(), f"operations {path}")
        return {name: Operation.model_validate(fields) for name, fields in data.items()}
    except OSError as error:
        raise UsageError(f"operations {path}: {error.strerror}") from None
    except ValidationError as error:
        raise UsageError(f"operations {path}: {complaint(error, 'file')}") from None
    except AttributeError:
        raise UsageError(f"operations {path}: want a mapping of names to operations") from None


@dataclass(frozen=True)
class Data:
    """What disk and memory have of the files when the operation begins, as steps after `prepare`.

    `written`: everything is written to the disk first. `renewed`: then all data is changed in memory.
    """

    what: str
    written: bool
    renewed: bool


DATA = {
    "memory": Data("files are in memory alone", written=False, renewed=False),
    "disk": Data("files are on the disk", written=True, renewed=False),
    "newer": Data("the disk has older data than memory", written=True, renewed=True),
}


@dataclass(frozen=True)
class Beside:
    """What a second task does on another processor, in between, again and again; and steps after `prepare`.

    What it does leaves the operation's own files as they are. `between` is that of its own files, as in
    Operation.
    """

    steps: str
    prepare: str = ""
    between: str = ""

    @property
    def file(self) -> str | None:
        """The operation's file that it works on, which the operation must have; None if on none."""
        return "it/a" if " it/a" in self.steps else None


BESIDE = {
    "nothing": Beside(""),
    "read": Beside("read it/a"),
    "fault": Beside("fault it/a"),
    "hole": Beside("hole it/a 50", prepare="lengthen it/a 50"),
    "truncate": Beside(
        "write beside/b 0 30000 b , truncate beside/b 5000",
        prepare="write beside/b 0 30000 b",
        between="written",
    ),
}


def written(before: bytes, after: bytes, found: bytes) -> bool:
    """Whether `found` begins as `after`, and goes on as `before` from a point on."""
    if not min(len(before), len(after)) <= len(found) <= max(len(before), len(after)):
        return False
    same = next((at for at, pair in enumerate(zip(found, after, strict=False)) if pair[0] != pair[1]), None)
    point = min(len(found), len(after)) if same is None else same
    return found[point:] == before[point : len(found)]


def mixed(before: bytes, after: bytes, found: bytes) -> bool:
    """Whether each byte of `found` is that of `before` or of `after`, and its size is not beyond theirs.

    What a file does not have counts as zeros.
    """
    size = max(len(before), len(after))
    if not min(len(before), len(after)) <= len(found) <= size:
        return False
    pairs = zip(found, before.ljust(size, b"\0"), after.ljust(size, b"\0"), strict=False)
    return all(byte in (old, new) for byte, old, new in pairs)


BETWEEN: dict[str, Callable[[bytes, bytes, bytes], bool]] = {"written": written, "mixed": mixed}
