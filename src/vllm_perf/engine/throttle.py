# SPDX-License-Identifier: Apache-2.0
"""NVML's clock event reasons in words, and which of them spoil a measurement."""

# Bit values as nvml.h defines them (nvmlClocksEventReason*); written out so that a record made by one
# driver is read the same by any other.
REASONS = {
    0x1: "GPU idle",
    0x2: "application clocks set",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
POWER_CAP = "software power cap"
SPOILING = frozenset(
    {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
)


def decode(bits: int) -> tuple[str, ...]:
    """Return the reasons in ``bits``, in words; a bit that is not known is shown as a number."""
    known = [word for bit, word in REASONS.items() if bits & bit]
    rest = bits & ~sum(REASONS)
    return (*known, f"unknown reason {rest:#x}") if rest else tuple(known)
