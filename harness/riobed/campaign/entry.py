# SPDX-License-Identifier: Apache-2.0
"""A campaign's row in the store: made by its first run, and compared by each that goes on with it."""

import os
import platform
from collections.abc import Callable
from typing import Any

import yaml
from riobed_results.store import CAMPAIGN, CampaignRow, Provenance, Store, Vocabulary

from riobed.errors import UsageError


def open_campaign(
    store: Store,
    name: str,
    data: dict[str, Any],
    vocabulary: Vocabulary,
    here: Provenance,
    comparable: Callable[[str], object],
) -> CampaignRow:
    """Return the row of campaign `name`, made if it is new.

    `data` is the spec as it is stored, `vocabulary` what its names mean, `comparable` what of a stored text
    must be equal. UsageError if the stored one has another spec or provenance.
    """
    text = yaml.safe_dump(data, sort_keys=False)
    if name not in [row.name for row in store.campaigns()]:
        host = {
            "cpus": len(os.sched_getaffinity(0)),
            "kernel": platform.release(),
            "machine": platform.machine(),
        }
        return store.add_campaign(
            CampaignRow(name=name, spec=text, vocabulary=vocabulary, host=host, **here.model_dump())
        )
    old = store.campaign(name)
    if comparable(old.spec) != comparable(text):
        raise UsageError(
            f"campaign {name!r} is in this store with another spec; "
            "give this one another name or another store"
        )
    if difference := old.provenance.difference(here, CAMPAIGN):
        raise UsageError(
            f"campaign {name!r} was begun on something else: {difference}; go on with what it "
            "was begun with, or give this one another name or another store"
        )
    return old
