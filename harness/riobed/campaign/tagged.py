# SPDX-License-Identifier: Apache-2.0
"""A protocol that a tag has fixed: code and spec are those of the tag, and so is the seed."""

import subprocess
from pathlib import Path

from riobed_results.rules.protocol import seed_of

from riobed.errors import EnvironmentFault, UsageError
from riobed.plan import CampaignSpec


def fixed_by_tag(spec: CampaignSpec, path: Path) -> CampaignSpec:
    """Return a spec with the seed and the commit of the tag that its protocol names; others as they are.

    Raises UsageError unless the tag is checked out, without changes, and has the spec; EnvironmentFault
    without git.
    """
    if not spec.protocol or not (spec.protocol.tag or spec.protocol.commit):
        return spec
    where = f"spec {path}: protocol.tag"
    if spec.protocol.commit or "seed" in spec.model_fields_set:
        raise UsageError(f"{where}: seed and protocol.commit follow from it; leave them out")
    tag = spec.protocol.tag
    found = [
        _git(path, "rev-parse", "-q", "--verify", f"{name}^{{commit}}")
        for name in (f"refs/tags/{tag}", "HEAD")
    ]
    if found[0] is None:
        raise UsageError(f"{where}: there is no tag {tag!r}; commit what is to count and tag it")
    if found[0] != found[1]:
        raise UsageError(f"{where}: another commit is checked out; run 'git checkout {tag}' and 'make setup'")
    if changed := _git(path, "status", "--porcelain", "--untracked-files=no"):
        raise UsageError(f"{where}: the checkout is changed ({changed.splitlines()[0]}); undo that")
    if not _git(path, "ls-files", path.name):
        raise UsageError(f"{where}: the spec is not in tag {tag!r}; commit it and make another tag")
    protocol = spec.protocol.model_copy(update={"commit": found[0]})
    return spec.model_copy(update={"protocol": protocol, "seed": seed_of(found[0])})


def _git(path: Path, *arguments: str) -> str | None:
    """Return what git prints in the spec's folder, without the space around it; None if it fails."""
    command = ["git", "-C", str(path.resolve().parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentFault("a protocol with a tag needs git; install it") from None
    return None if done.returncode else done.stdout.strip()
