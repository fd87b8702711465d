# SPDX-License-Identifier: Apache-2.0
"""The number of the way in which this project measures: numbers of two ways are never compared."""

# Raised when the same server would get another number: what is sent changes (beyond the prompts, whose hash
# is recorded), when a stamp is taken, or what a metric means. Not for a release, a report or a verdict's
# rule: both sides of a comparison are judged by the rules of the day. See docs/decisions/0006.
MEASUREMENT_PROTOCOL = 1
