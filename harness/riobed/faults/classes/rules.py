# SPDX-License-Identifier: Apache-2.0
"""The fault classes that replace one instruction of the kernel's text, by name."""

from __future__ import annotations

from riobed.faults.classes.delete_branch import DELETE_BRANCH
from riobed.faults.classes.delete_random_inst import DELETE_RANDOM_INST
from riobed.faults.classes.destination_reg import DESTINATION_REG
from riobed.faults.classes.initialization import INITIALIZATION
from riobed.faults.classes.off_by_one import OFF_BY_ONE
from riobed.faults.classes.pointer import POINTER
from riobed.faults.classes.source_reg import SOURCE_REG
from riobed.faults.sites.rule import TextRule

RULES: dict[str, TextRule] = {
    rule.name: rule
    for rule in (
        DESTINATION_REG,
        SOURCE_REG,
        DELETE_BRANCH,
        DELETE_RANDOM_INST,
        INITIALIZATION,
        POINTER,
        OFF_BY_ONE,
    )
}
