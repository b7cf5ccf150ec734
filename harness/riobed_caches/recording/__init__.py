# SPDX-License-Identifier: Apache-2.0
"""Recording: runs a command under strace, and makes a trace of what it did to files."""
