# SPDX-License-Identifier: Apache-2.0
"""Memory: where everything lies in a guest's RAM, and what the host reads and writes there."""
