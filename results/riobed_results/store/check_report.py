# SPDX-License-Identifier: Apache-2.0
"""The report of a workload's check of its files after a crash."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

# The states of files that a check tells apart, best first (workloads/memtest/README.md), and what each means.
FILE_STATES = {
    "older": "a file or a name is as after an earlier step.",
    "renamed": "a file has a newer name than its content.",
    "mixed": "its blocks are as after several steps.",
    "zeroed": "a block has zeros where no step left any.",
    "torn": "a block has bytes of several steps.",
    "stale": "a block has bytes of no step since the last sync.",
    "misplaced": "a rename left it at neither name, or at both.",
    "unsynced": "it is as before its last sync.",
    "damaged": "it never was like that.",
}


class Difference(BaseModel):
    """A place where a file is not as expected; `offset` and `length` in bytes (workloads/memtest)."""

    model_config = ConfigDict(frozen=True, strict=True)

    path: str
    kind: str = "differs"
    offset: Annotated[int, Field(ge=0)] = 0
    length: Annotated[int, Field(ge=0)] = 0
    detail: str = ""

    def __str__(self) -> str:
        place = f", {self.length} bytes from {self.offset}" if self.length else ""
        return f"{self.path}: {self.kind}{place}" + (f" ({self.detail})" if self.detail else "")


class CheckReport(BaseModel):
    """`equal` comes from the check's exit status; everything the check printed is kept unchanged.

    A check may give the number of differences it found (`difference_count`) and list some of them
    (`differences`). It may say how much is lost: `files_lost` of its `files_expected`, and `bytes_lost`; and
    how many of the newest steps, `steps_lost`, if the files are as after an earlier one.
    Values of another shape are kept, but ignored here. All counts include those of `beside`.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    equal: Annotated[bool, Field(strict=True)]

    @property
    def beside(self) -> list["CheckReport"]:
        """The reports on workloads that ran beside the judged one, each with its name as `workload`.

        That on what is outside the folders of confined workloads has the name `outside`.
        """
        listed = self._printed("beside")
        return list(map(CheckReport.model_validate, listed)) if isinstance(listed, list) else []

    @property
    def workload(self) -> str:
        """The name of a workload that ran beside the judged one, "" of the judged one itself."""
        return str(self._printed("workload") or "")

    @property
    def all_equal(self) -> bool:
        """Whether the files of all workloads are as expected."""
        return self.equal and all(each.equal for each in self.beside)

    @property
    def difference_count(self) -> int | None:
        """The number of differences that the check counted; None if it gives none."""
        return self._count("difference_count")

    @property
    def files_lost(self) -> int | None:
        """The number of expected files that are not there or wrong; None if the check does not say."""
        return self._count("files_lost")

    @property
    def bytes_lost(self) -> int | None:
        """The number of expected bytes that are not there or wrong; None if the check does not say."""
        return self._count("bytes_lost")

    @property
    def steps_lost(self) -> int | None:
        """The number of newest steps that are not in the files; None if the check does not say."""
        return self._count("steps_lost")

    @property
    def states(self) -> frozenset[str] | None:
        """The states that files were found in; None unless the check tells of them (workloads/memtest)."""
        listed = self._printed("states")
        if not isinstance(listed, dict):
            return None
        return frozenset(name for name in FILE_STATES if type(listed.get(name)) is int and listed[name] > 0)

    @property
    def total_loss(self) -> bool | None:
        """Whether no expected file is right; None if the check does not say."""
        expected, lost = self._count("files_expected"), self.files_lost
        return None if lost is None or not expected else lost >= expected

    @property
    def differences(self) -> list[Difference]:
        """The differences that the checks listed; malformed ones are left out.

        Paths of a workload beside the judged one begin with its name.
        """
        listed = self._printed("differences")
        mine = [found for item in listed if (found := _difference(item))] if isinstance(listed, list) else []
        return [*mine, *(found for each in self.beside for found in each._named_differences())]

    def _named_differences(self) -> list[Difference]:
        return [
            found.model_copy(update={"path": f"{self.workload}/{found.path}"}) for found in self.differences
        ]

    def _count(self, key: str) -> int | None:
        """Return the sum of the workloads' numbers under this key; None if one that differs has none."""
        count = self._printed(key)
        if type(count) is not int or not 0 <= count < 1 << 63:
            return None
        counts = [each._count(key) for each in self.beside]
        if any(found is None and not each.equal for found, each in zip(counts, self.beside, strict=True)):
            return None
        return count + sum(found or 0 for found in counts)

    def _printed(self, key: str) -> Any:
        return (self.model_extra or {}).get(key)


def _difference(item: Any) -> Difference | None:
    try:
        return Difference.model_validate(item)
    except ValidationError:
        return None
