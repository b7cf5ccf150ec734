# SPDX-License-Identifier: Apache-2.0
"""The base of everything that a user may write in a spec or in a file of modes."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict

from riobed.errors import UsageError


class Strict(BaseModel):
    """A part of a spec: unknown keys are errors, and instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn a UsageError into a ValueError, to which pydantic adds the key."""
    try:
        yield
    except UsageError as error:
        raise ValueError(str(error)) from None
