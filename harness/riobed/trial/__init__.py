# SPDX-License-Identifier: Apache-2.0
"""Trial: runs one trial, from the snapshot to a verdict, and makes the row that is stored.

It runs on the guest it is given.
"""

from riobed.trial.control.plant import PLANTED
from riobed.trial.observe.evidence import Evidence
from riobed.trial.record import TrialRecord
from riobed.trial.recovery.recover import RECOVERY_TRIES, read_recovery
from riobed.trial.rows import fault_row, name_callers, trial_row, write_log
from riobed.trial.trial import INJECTOR, run_trial
from riobed.trial.verdict import read_check

__all__ = [
    "INJECTOR",
    "PLANTED",
    "RECOVERY_TRIES",
    "Evidence",
    "TrialRecord",
    "fault_row",
    "name_callers",
    "read_check",
    "read_recovery",
    "run_trial",
    "trial_row",
    "write_log",
]
