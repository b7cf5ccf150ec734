# SPDX-License-Identifier: Apache-2.0
"""Export: the rows of a campaign as Arrow, Parquet, JSON or text, with what follows from each row."""
