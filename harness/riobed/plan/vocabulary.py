# SPDX-License-Identifier: Apache-2.0
"""The vocabulary that a campaign stores when it starts: what the names in its rows mean."""

from collections.abc import Mapping

from riobed_results.store import Vocabulary

from riobed.faults import CLASSES
from riobed.guest import CacheMode
from riobed.plan.kinds import KINDS
from riobed.plan.spec import CampaignSpec

# Every run is judged, however it ended (docs/decisions/034-every-run-judged.md).
_ENDPOINT = "judged"


def campaign_vocabulary(spec: CampaignSpec) -> Vocabulary:
    """Return the vocabulary of a campaign. Its endpoint is that of its first claim, if it has one."""
    claims = spec.protocol.claims if spec.protocol else ()
    endpoint = claims[0].endpoint if claims else _ENDPOINT
    more = {"restart": spec.restart, "must_lose": spec.must_lose, "endpoint": endpoint}
    return vocabulary(spec.arms).model_copy(update=more)


def vocabulary(modes: Mapping[str, CacheMode]) -> Vocabulary:
    """Return the vocabulary of a campaign that compares modes and has nothing else to tell."""
    return Vocabulary(
        modes=tuple(modes),
        lost_at_reset=tuple(name for name, mode in modes.items() if mode.loses(power=False)),
        lost_at_power=tuple(name for name, mode in modes.items() if mode.loses(power=True)),
        run_time_classes=tuple(each.name for each in CLASSES.values() if each.sites is None),
        planted={name: kind.meaning for name, kind in KINDS.items()},
    )
