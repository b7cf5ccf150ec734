# SPDX-License-Identifier: Apache-2.0
"""Store: the rows of campaigns, the files beside them, and the queries on both."""

from riobed_results.store.base import Base, utc_now, values
from riobed_results.store.campaign import CampaignRow, stored_spec
from riobed_results.store.check_report import CheckReport, Difference
from riobed_results.store.export import follows, trials_parquet
from riobed_results.store.jsonl import add_line, read_lines
from riobed_results.store.location import (
    DEFAULT_STORE,
    PACKED_FILE,
    REPORT_FILE,
    STORE_FILE,
    locate,
    store_in,
)
from riobed_results.store.lock import locked
from riobed_results.store.logs import ARCHIVE, Links, Logs, label, pack
from riobed_results.store.oracles import oracles
from riobed_results.store.packed import pack_store
from riobed_results.store.protocol import Protocol, stored_protocol
from riobed_results.store.provenance import CAMPAIGN, KERNEL, SERIES, WORKER, KernelProvenance, Provenance
from riobed_results.store.queries import (
    CONTROLS,
    CRASHES,
    OTHERS,
    Counts,
    CrashesBySeed,
    Results,
    cell_counts,
    counted,
    crashed,
    crashes_by_seed,
    in_order,
    judged,
    judges_all,
    kernels,
    other,
    read_results,
    result_at,
    trial_rows,
    vcpus,
)
from riobed_results.store.recovery_report import (
    ENDED,
    Interruption,
    Mismatch,
    RecoveryReport,
    counts,
    cut_short,
    is_direct,
)
from riobed_results.store.run import DiskCounts, RunKind, RunRow
from riobed_results.store.store import Store, open_store, try_store
from riobed_results.store.summary import SUMMARIES, GroupRow
from riobed_results.store.tally import Row, RowType, Tally, how_many, numbers
from riobed_results.store.trial import (
    LOSSES_OF_POWER,
    PANICS,
    Corruption,
    CorruptionWhere,
    CrashKind,
    FaultRow,
    Outcome,
    Restart,
    TrialRow,
)
from riobed_results.store.vocabulary import PlantedKind, Vocabulary

__all__ = [
    "ARCHIVE",
    "CAMPAIGN",
    "CONTROLS",
    "CRASHES",
    "DEFAULT_STORE",
    "ENDED",
    "KERNEL",
    "LOSSES_OF_POWER",
    "OTHERS",
    "PACKED_FILE",
    "PANICS",
    "REPORT_FILE",
    "SERIES",
    "STORE_FILE",
    "SUMMARIES",
    "WORKER",
    "Base",
    "CampaignRow",
    "CheckReport",
    "Corruption",
    "CorruptionWhere",
    "Counts",
    "CrashKind",
    "CrashesBySeed",
    "Difference",
    "DiskCounts",
    "FaultRow",
    "GroupRow",
    "Interruption",
    "KernelProvenance",
    "Links",
    "Logs",
    "Mismatch",
    "Outcome",
    "PlantedKind",
    "Protocol",
    "Provenance",
    "RecoveryReport",
    "Restart",
    "Results",
    "Row",
    "RowType",
    "RunKind",
    "RunRow",
    "Store",
    "Tally",
    "TrialRow",
    "Vocabulary",
    "add_line",
    "cell_counts",
    "counted",
    "counts",
    "crashed",
    "crashes_by_seed",
    "cut_short",
    "follows",
    "how_many",
    "in_order",
    "is_direct",
    "judged",
    "judges_all",
    "kernels",
    "label",
    "locate",
    "locked",
    "numbers",
    "open_store",
    "oracles",
    "other",
    "pack",
    "pack_store",
    "read_lines",
    "read_results",
    "result_at",
    "store_in",
    "stored_protocol",
    "stored_spec",
    "trial_rows",
    "trials_parquet",
    "try_store",
    "utc_now",
    "values",
    "vcpus",
]
