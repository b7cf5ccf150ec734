# SPDX-License-Identifier: Apache-2.0
"""A campaign's spec as the store keeps it, and back."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from riobed.errors import UsageError, complaint
from riobed.faults import SiteFilter
from riobed.guest import Throttle
from riobed.plan.spec import CampaignSpec, ComparesModes
from riobed.products import CHECKOUT
from riobed.yamltext import parse_yaml


def modes_data(spec: ComparesModes) -> dict[str, Any]:
    """A spec as stored, as far as its modes go."""
    data = spec.model_dump(mode="json")
    # So that a key that a later riobed adds to modes changes no stored spec.
    data["own_modes"] = {
        name: mode.model_dump(mode="json", exclude_defaults=True) for name, mode in spec.own_modes.items()
    }
    if spec.modes_file:
        data["modes_file"] = spec.modes_file.name
    return data


def spec_data(spec: CampaignSpec) -> dict[str, Any]:
    """A spec as stored: workloads of the project go by their paths in the project.

    Lists of functions and instructions are stored themselves, and of their files only the names.
    """
    data = modes_data(spec)
    for key in ("functions_file", "instructions_file"):
        if path := getattr(spec.sites, key):
            data["sites"][key] = path.name
    data["workload"] = spec.workload.moved(_in_project).model_dump(mode="json")
    return data


def _in_project(path: Path) -> Path:
    return path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path


def comparable(text: str) -> object:
    """A stored spec without what may differ from run to run: where the workloads' folders lie."""
    data: Any = parse_yaml(text, "stored spec")
    if "workload" not in data:
        # A bench of the same name.
        return data
    for workload in (data["workload"], *data["workload"].get("beside", ())):
        workload["path"] = Path(workload["path"]).name
    # Its modes are stored themselves.
    data.pop("modes_file", None)
    data.setdefault("own_modes", {})
    # A campaign begun before there were these keys took the whole kernel and the paper's numbers, had no
    # controls but those among its classes, and waited to the limit.
    data["sites"] = SiteFilter().model_dump(mode="json") | data.get("sites", {})
    data.setdefault("parameters", {})
    data.setdefault("controls", {})
    data.setdefault("quiet_s", None)
    data.setdefault("survivor_steps", None)
    data.setdefault("ask_s", None)
    data.setdefault("restore_check_share", 0.0)
    data.setdefault("boot_production", False)
    data.setdefault("cache_shares", [])
    data.setdefault("protocol", None)
    data["machine"].setdefault("icount", False)
    data["machine"].setdefault("nvdimm_mib", 0)
    data["machine"].setdefault("canary_mib", 0)
    data["machine"].setdefault("throttle", Throttle().model_dump(mode="json"))
    return data


def stored_spec(campaign: str, text: str) -> CampaignSpec:
    """The spec in a stored text; UsageError when this riobed cannot read it."""
    data = parse_yaml(text, f"campaign {campaign!r}: its spec")
    own = data.get("own_modes") if isinstance(data, dict) else None
    for mode in own.values() if isinstance(own, dict) else ():
        if isinstance(mode, dict):
            # Before schema 8 it said how losses of power were judged.
            mode.pop("may_lose_newest", None)
    try:
        spec = CampaignSpec.model_validate(data)
    except ValidationError as error:
        raise UsageError(
            f"campaign {campaign!r}: its spec is of another riobed: {complaint(error, 'spec')}; "
            "use the riobed that wrote it"
        ) from None
    workload = spec.workload.moved(lambda path: (CHECKOUT / path).resolve())
    return spec.model_copy(update={"workload": workload})
