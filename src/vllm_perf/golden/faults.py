# SPDX-License-Identifier: Apache-2.0
"""Every misbehaviour by its id."""

from vllm_perf.golden import fault_errors, fault_metrics, fault_more_streams, fault_streams
from vllm_perf.golden.fault import Fault

STREAM_FAULTS = fault_streams.CASES
FAULTS: dict[str, Fault] = {
    case.id: case
    for table in (fault_streams, fault_more_streams, fault_errors, fault_metrics)
    for case in table.CASES
}
