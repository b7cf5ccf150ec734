# SPDX-License-Identifier: Apache-2.0
"""The protocol of a campaign, a part of its spec: what it is to show, in which order, and at which level."""

import hashlib
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from riobed_results.errors import StoreError
from riobed_results.rules.endpoints import COMPARING, CORRUPTION
from riobed_results.store import CONTROLS, CampaignRow, stored_spec


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Claim(_Strict):
    """One endpoint: `mode` has a smaller share than `than` has, or one that is larger by less than `margin`.

    `endpoint` is a name of endpoints.py by which modes may be compared, `margin` is in percentage points. The
    shares are means over the `fault_classes` that it is about; None means all of the campaign. Claims of
    another `chain` do not wait for each other.
    """

    mode: str
    than: str
    endpoint: str = CORRUPTION.name
    margin: Annotated[float, Field(ge=0, lt=100)] = 0.0
    fault_classes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    chain: Annotated[str, Field(pattern=r"^[a-z0-9-]{0,31}$")] = ""

    @field_validator("endpoint")
    @classmethod
    def _is_defined(cls, value: str) -> str:
        if value not in COMPARING:
            raise ValueError(f"endpoint {value!r} compares no modes; these do: {', '.join(COMPARING)}")
        return value

    @model_validator(mode="after")
    def _compares_two(self) -> "Claim":
        if self.mode == self.than:
            raise ValueError(f"{self.mode} is compared with itself; give another mode for `than`")
        return self

    def __str__(self) -> str:
        more = f" + {self.margin:g} points" if self.margin else ""
        classes = f" in {', '.join(self.fault_classes)}" if self.fault_classes else ""
        return f"{self.endpoint}: {self.mode} < {self.than}{more}{classes}"


class Protocol(_Strict):
    """What a campaign is to show, fixed before its first trial. Without claims it describes, and has a `tag`.

    Each claim is tested one-sided, at `alpha` divided by the number of chains. A claim is shown only after
    those before it in its chain, which keeps the probability of any false claim at `alpha` (Maurer, Hothorn
    and Lehmacher, 1995; Westfall and Krishen, Journal of Statistical Planning and Inference 99, 2001; the sum
    over chains is Bonferroni's). With `runs` the claims are tested once, when each cell has as many runs.
    If the dispersion of the rounds is above `dispersion`, that test goes by rounds instead of pairs.
    `infra_errors` is the largest share of an arm's first attempts that may fail for reasons of the harness.
    """

    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.025
    runs: Annotated[int, Field(ge=1)] | None = None
    dispersion: Annotated[float, Field(ge=1, le=100)] | None = None
    infra_errors: Annotated[float, Field(gt=0, lt=1)] | None = None
    # The tag of the commit that fixed the spec, and that commit, which `riobed run` stores.
    tag: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")] | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _makes_sense(self) -> "Protocol":
        if not self.claims and not self.tag:
            raise ValueError("give it claims, or a tag that fixes what is described")
        for name in ("runs", "dispersion", "infra_errors"):
            if getattr(self, name) and not self.claims:
                raise ValueError(f"{name}: it is about claims, and there are none; leave it out")
        if self.dispersion and not self.runs:
            raise ValueError(
                "dispersion: a test after every run has no use for it; set runs, or leave it out"
            )
        return self

    @property
    def level(self) -> float:
        """The level at which each claim is tested, one-sided."""
        return self.alpha / max(1, len({claim.chain for claim in self.claims}))

    @property
    def arms(self) -> frozenset[str]:
        """The modes that claims name."""
        return frozenset(mode for claim in self.claims for mode in (claim.mode, claim.than))

    def unknown(self, modes: list[str], classes: list[str]) -> str:
        """Return the first mode or fault class that the campaign has not; empty if it has all of them."""
        for claim in self.claims:
            for name in (claim.mode, claim.than):
                if name not in modes:
                    return f"{name!r} is none of the modes"
            for name in claim.fault_classes or ():
                if name not in classes or name in CONTROLS:
                    return f"{name!r} is none of the fault_classes"
        return ""


def seed_of(commit: str) -> int:
    """Return the seed that follows from a commit's id: the first 8 hex digits of its SHA-256."""
    return int(hashlib.sha256(commit.encode()).hexdigest()[:8], 16)


def stored_protocol(campaign: CampaignRow) -> Protocol | None:
    """Return a campaign's protocol, None if it has none; StoreError if this riobed cannot read it."""
    found: Any = stored_spec(campaign).get("protocol")
    try:
        return None if found is None else Protocol.model_validate(found)
    except ValidationError as error:
        raise StoreError(
            f"campaign {campaign.name!r}: its protocol is of another riobed: {error.errors()[0]['msg']}; "
            "use the riobed that wrote it"
        ) from None
