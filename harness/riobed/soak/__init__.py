# SPDX-License-Identifier: Apache-2.0
"""`riobed soak`: no trap, no wrong checksum and no lost file where no fault was injected."""
