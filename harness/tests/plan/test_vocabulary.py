# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of a campaign, and that of older campaigns, which is told by names."""

from typing import Any

import pytest
from harness_builders import spec
from riobed.guest import CacheMode, all_modes
from riobed.plan import campaign_vocabulary, spec_data, vocabulary
from riobed_results.store.vocabulary import before_vocabularies


def test_campaigns_without_a_vocabulary_are_judged_as_today() -> None:
    """They name the shipped modes, classes and kinds of change, which have not changed their meaning."""
    # One mode is newer than vocabularies.
    modes = {name: mode for name, mode in all_modes().items() if name != "rio-sync-at-panic"}
    now, then = vocabulary(modes), before_vocabularies({"modes": list(modes)})
    assert set(then.lost_at_reset) == set(now.lost_at_reset)
    assert set(then.lost_at_power) == set(now.lost_at_power)
    assert set(then.run_time_classes) == set(now.run_time_classes)
    assert then.planted == now.planted


OWN: list[tuple[dict[str, Any], bool, bool]] = [
    ({}, True, True),
    ({"mount": "sync"}, False, False),
    ({"mount": "noatime,sync"}, False, False),
    ({"mount": "dirsync"}, True, True),
    ({"sync_writes": True}, False, False),
    ({"sync_on_close": True}, False, False),
    ({"restores_memory": True, "mount": "rio"}, False, True),
    ({"filesystem": "tmpfs"}, True, True),
    ({"filesystem": "tmpfs", "mount": "sync"}, True, True),
]


@pytest.mark.parametrize(("keys", "at_reset", "at_power"), OWN)
@pytest.mark.parametrize("name", ["mine", "delayed-mine"])
def test_what_an_own_mode_loses_follows_from_its_keys(
    name: str, keys: dict[str, Any], at_reset: bool, at_power: bool
) -> None:
    own = {name: {"summary": "s"} | keys}
    lost = [name] * at_reset, [name] * at_power
    stored = before_vocabularies({"modes": [name], "own_modes": own})
    for found in (vocabulary({name: CacheMode.model_validate(own[name])}), stored):
        assert [name for name in found.lost_at_reset if name in own] == lost[0]
        assert [name for name in found.lost_at_power if name in own] == lost[1]


@pytest.mark.parametrize("restart", ["reset", "power"])
def test_a_campaign_says_how_its_machine_restarts(restart: str) -> None:
    made = spec(modes=["rio", "delayed"], restart=restart)
    found = campaign_vocabulary(made)
    assert found.losing == {"delayed"} | ({"rio"} if restart == "power" else set())
    assert before_vocabularies(spec_data(made)).losing >= found.losing


def test_the_endpoint_is_that_of_the_protocol() -> None:
    claim = {"mode": "rio", "than": "delayed", "endpoint": "panics"}
    asked = spec(modes=["rio", "delayed"], protocol={"claims": [claim]})
    assert campaign_vocabulary(asked).endpoint == "panics"
    for other in (spec(modes=["rio"]), spec(modes=["rio"], protocol={"tag": "a"})):
        assert campaign_vocabulary(other).endpoint == "judged"
