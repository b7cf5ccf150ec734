# SPDX-License-Identifier: Apache-2.0
"""The rows of campaigns."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml
from sqlalchemy.orm import Mapped, mapped_column

from riobed_results.store.base import Base, Json, JsonOf, fact, utc_now
from riobed_results.store.provenance import KernelProvenance, Provenance
from riobed_results.store.vocabulary import Vocabulary

Kernels = dict[str, KernelProvenance]


class CampaignRow(Base):
    """One campaign: its spec, its provenance, and the host it was started on."""

    __tablename__ = "campaigns"

    id: Mapped[int] = mapped_column(primary_key=True, init=False, info=fact("number of the row"))
    name: Mapped[str] = mapped_column(unique=True, info=fact("name of the campaign"))
    spec: Mapped[str] = mapped_column(info=fact("its spec", "YAML"))
    seed: Mapped[str] = mapped_column(info=fact("seed that the plan follows from"))
    kernel_release: Mapped[str] = mapped_column(info=fact("release of the default kernel"))
    kernel_build_id: Mapped[str] = mapped_column(info=fact("build id of the default kernel"))
    series_commit: Mapped[str] = mapped_column(info=fact("commit of the kernel series"))
    qemu_version: Mapped[str] = mapped_column(info=fact("version of QEMU"))
    accelerator: Mapped[str] = mapped_column(info=fact("what executes the guest's instructions"))
    vocabulary: Mapped[Vocabulary] = mapped_column(
        JsonOf(Vocabulary), info=fact("what the names in its rows mean", since=5)
    )
    host: Mapped[Json] = mapped_column(info=fact("host that it was started on"))
    kernels: Mapped[Kernels] = mapped_column(
        JsonOf(Kernels),
        default_factory=dict,
        info=fact("provenance of the kernels of modes that have another", since=2),
    )
    harness: Mapped[str | None] = mapped_column(default=None, info=fact("version of the harness", since=2))
    image: Mapped[str | None] = mapped_column(default=None, info=fact("hash of the guest's image", since=2))
    workload: Mapped[str | None] = mapped_column(default=None, info=fact("hash of the workload", since=2))
    created: Mapped[str] = mapped_column(
        default_factory=utc_now, info=fact("when it was started", "UTC, ISO 8601")
    )

    @property
    def provenance(self) -> Provenance:
        """The provenance of the campaign's trials."""
        return Provenance.model_validate(self, from_attributes=True)


def stored_spec(campaign: CampaignRow) -> Mapping[str, Any]:
    """Return a campaign's spec as it was stored; empty if it cannot be parsed."""
    return parsed_spec(campaign.spec)


# A table asks for each of its axes, and a spec of 40 kB takes a quarter of a second to parse.
@lru_cache(maxsize=16)
def parsed_spec(text: str) -> Mapping[str, Any]:
    """Return a spec of a store, which all that ask for it share; empty if it cannot be parsed."""
    try:
        spec = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}
