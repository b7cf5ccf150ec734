# SPDX-License-Identifier: Apache-2.0
"""On what a campaign ran."""

from pydantic import BaseModel


class Environment(BaseModel):
    """On what the campaign ran: a figure means nothing without it."""

    seed: str
    kernel_release: str
    kernel_build_id: str
    series_commit: str
    qemu_version: str
    accelerator: str
    created: str
