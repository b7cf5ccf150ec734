# SPDX-License-Identifier: Apache-2.0
"""A campaign's spec as the store keeps it, and back."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from riobed.errors import UsageError, complaint
from riobed.faults import SiteFilter
from riobed.plan.spec import CampaignSpec
from riobed.products import CHECKOUT


def spec_data(spec: CampaignSpec) -> dict[str, Any]:
    """A spec as stored: a workload of the project goes by its path in the project.

    A list of functions is stored itself, and of its file only the name.
    """
    data = spec.model_dump(mode="json")
    if spec.sites.functions_file:
        data["sites"]["functions_file"] = spec.sites.functions_file.name
    if spec.workload.path.is_relative_to(CHECKOUT):
        data["workload"]["path"] = str(spec.workload.path.relative_to(CHECKOUT))
    return data


def comparable(text: str) -> object:
    """A stored spec without what may differ from run to run: where the workload's folder lies."""
    data = yaml.safe_load(text)
    data["workload"]["path"] = Path(data["workload"]["path"]).name
    # A campaign begun before there were these keys took the whole kernel and the paper's numbers, had no
    # controls but those among its classes, and waited to the limit.
    data.setdefault("sites", SiteFilter().model_dump(mode="json"))
    data.setdefault("parameters", {})
    data.setdefault("controls", {})
    data.setdefault("early_discard_s", None)
    data.setdefault("restore_check_share", 0.0)
    data["machine"].setdefault("icount", False)
    return data


def stored_spec(campaign: str, text: str) -> CampaignSpec:
    """The spec in a stored text; UsageError when this riobed cannot read it."""
    try:
        spec = CampaignSpec.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(
            f"campaign {campaign!r}: its spec is not YAML: {' '.join(str(error).split())}"
        ) from None
    except ValidationError as error:
        raise UsageError(
            f"campaign {campaign!r}: its spec is of another riobed: {complaint(error, 'spec')}; "
            "use the riobed that wrote it"
        ) from None
    path = (CHECKOUT / spec.workload.path).resolve()
    return spec.model_copy(update={"workload": spec.workload.model_copy(update={"path": path})})
