# SPDX-License-Identifier: Apache-2.0
"""The report of a workload's check of its files after a crash."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError


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
    (`differences`). Values of another shape are kept, but ignored here.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    equal: Annotated[bool, Field(strict=True)]

    @property
    def difference_count(self) -> int | None:
        """The number of differences that the check counted; None if it gives none."""
        count = self._printed("difference_count")
        return count if type(count) is int and count >= 0 else None

    @property
    def differences(self) -> list[Difference]:
        """The differences that the check listed; malformed ones are left out."""
        listed = self._printed("differences")
        return [found for item in listed if (found := _difference(item))] if isinstance(listed, list) else []

    def _printed(self, key: str) -> Any:
        return (self.model_extra or {}).get(key)


def _difference(item: Any) -> Difference | None:
    try:
        return Difference.model_validate(item)
    except ValidationError:
        return None
