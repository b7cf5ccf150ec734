# SPDX-License-Identifier: Apache-2.0
"""Claims: the figures that a published folder states, computed from its rows.

`folder.py` finds a folder's rows and writes `claims.json`. Each kind of rows has a module of its own.
`prose.py` finds figures of a README that no claim backs.
"""

from publishing.claims.folder import CLAIMS_FILE, folder_claims, read_claims, write_claims
from publishing.claims.prose import Prose, unbacked

__all__ = ["CLAIMS_FILE", "Prose", "folder_claims", "read_claims", "unbacked", "write_claims"]
