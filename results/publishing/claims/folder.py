# SPDX-License-Identifier: Apache-2.0
"""The claims of a folder: find its rows, and collect the claims of each kind of rows."""

from collections import Counter
from pathlib import Path

from pydantic import BaseModel, ValidationError
from riobed_results.errors import StoreError
from riobed_results.store import Results, open_store, read_results, store_in
from riobed_results.tables.caches.grids import is_study
from riobed_results.tables.controls import replays, soak, sweep
from riobed_results.tables.controls.processors import read_campaigns
from riobed_results.tables.cost.cost import COST

from publishing.claims.caches import caches_claims
from publishing.claims.campaign import SUMS, campaign_claims
from publishing.claims.claim import Claim, slug
from publishing.claims.cost import cost_claims
from publishing.claims.performance import performance_claims
from publishing.claims.protocol import false_positives
from publishing.claims.replays import AGAIN_FILE, again_claims, read_again, replay_claims
from publishing.claims.soak import soak_claims
from publishing.claims.special import SPECIAL_AGAIN
from publishing.claims.sweep import sweep_claims

CLAIMS_FILE = "claims.json"


class Claims(BaseModel):
    """The content of claims.json."""

    claims: list[Claim]


def folder_claims(folder: Path) -> list[Claim]:
    """Compute the claims of a folder's rows; StoreError if it has no rows, or if some cannot be read.

    Rows are a campaign's store, those in subfolders, soaks and sweeps in the folder or its subfolders,
    replays, and a study of traces. A folder with a store of its own is about that campaign: those in its
    subfolders are not summed up.
    """
    results = read_results(open_store(str(folder))) if store_in(folder) else None
    found, campaigns = _of_store(results) if results else [], read_campaigns(folder)
    if results:
        found += false_positives(results, *campaigns)
    if campaigns:
        found += named_claims(campaigns) if results else sums(campaigns) + named_claims(campaigns)
    if soaks := _folders_of(folder, soak.FILE):
        found += soak_claims({path.name: soak.load_soak(path) for path in soaks})
    if sweeps := _folders_of(folder, sweep.FILE):
        found += sweep_claims({path.name: sweep.load_sweep(path) for path in sweeps})
    if is_study(folder):
        found += caches_claims(folder)
    for replayed in (folder, folder / "replays"):
        if (replayed / replays.FILE).exists():
            found += replay_claims(replays.read_replays(replayed), results)
        if (replayed / AGAIN_FILE).exists():
            again = read_again(replayed / AGAIN_FILE)
            found += again_claims(again, results)
            for special in SPECIAL_AGAIN.get(again[0].campaign, ()):
                found += special(again)
    if not found:
        raise StoreError(f"{folder}: has no rows; give a folder that publish, soak, sweep or replay wrote")
    if twice := [key for key, times in Counter(claim.key for claim in found).items() if times > 1]:
        raise StoreError(f"{folder}: two claims are called {twice[0]!r}; fix publishing.claims")
    return found


def _folders_of(folder: Path, file: str) -> list[Path]:
    """Return the folder and its subfolders that have such a file."""
    return sorted(path.parent for path in (*folder.glob(file), *folder.glob(f"*/{file}")))


def _of_store(results: Results) -> list[Claim]:
    """Return the claims of a campaign, or of a bench, which has measured runs and no trial."""
    if results.runs and not results.trials:
        return cost_claims(COST.compute(results)) if COST.has(results) else performance_claims(results)
    return campaign_claims(results)


def sums(campaigns: list[Results]) -> list[Claim]:
    """Return what is true of some campaigns together."""
    return [claim for source in SUMS for claim in source(*campaigns)]


def named_claims(campaigns: list[Results]) -> list[Claim]:
    """Return the claims of some campaigns, each with its folder's name before the key.

    The names of folders are unique: one campaign's spec may have been run twice.
    """
    return [
        claim.model_copy(update={"key": slug(results.source.location.folder.name, claim.key)})
        for results in campaigns
        for claim in campaign_claims(results)
    ]


def write_claims(folder: Path) -> None:
    """Compute the claims of a folder and write them to its claims.json; StoreError if that fails."""
    text = Claims(claims=folder_claims(folder)).model_dump_json(indent=1) + "\n"
    try:
        (folder / CLAIMS_FILE).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{folder / CLAIMS_FILE}: {error.strerror}; choose another folder") from None


def read_claims(folder: Path) -> list[Claim]:
    """Read a folder's claims.json; StoreError if it cannot be read."""
    path = folder / CLAIMS_FILE
    try:
        return Claims.model_validate_json(path.read_bytes()).claims
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; make it with 'python -m publishing claims'") from None
    except ValidationError as error:
        raise StoreError(
            f"{path}: {error.errors()[0]['msg']}; make it again with 'python -m publishing claims'"
        ) from None
