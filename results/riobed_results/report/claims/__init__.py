# SPDX-License-Identifier: Apache-2.0
"""Claims: the figures that a published folder states, computed from the rows in it.

`folder.py` says which rows a folder has and writes `claims.json`; there is a module for each kind of rows;
`prose.py` finds the figures of a README that no claim backs.
"""

from riobed_results.report.claims.folder import CLAIMS_FILE, folder_claims, read_claims, write_claims
from riobed_results.report.claims.prose import Prose, unbacked

__all__ = ["CLAIMS_FILE", "Prose", "folder_claims", "read_claims", "unbacked", "write_claims"]
