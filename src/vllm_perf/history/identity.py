# SPDX-License-Identifier: Apache-2.0
"""Tell, for many stored runs, which match what is being measured; each pair of parts is compared once."""

from vllm_perf.history.entry import RunEntry
from vllm_perf.history.environment import Environment, diff, identity_diff
from vllm_perf.history.record import SeriesKey
from vllm_perf.spec.history import IdentitySpec


class Matcher:
    """Remember which environments match, by the keys of the parts that the policy looks at."""

    def __init__(self, policy: IdentitySpec) -> None:
        self._policy = policy
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._differences: dict[tuple[str, ...], tuple[str, ...]] = {}

    def obstacles(self, run: RunEntry, key: SeriesKey, current: Environment) -> tuple[str, ...]:
        """Return the differences that forbid comparing ``current`` with this series of ``run``."""
        parts = run.cells[key.engine, key.workload]
        looked_at = [name for part, name in parts._asdict().items() if self._policy.fields(part)]
        name = (current.key, *looked_at)
        if name not in self._known:
            found = identity_diff(run.environment_of(key), current, self._policy)
            self._known[name] = tuple(found)
        return self._known[name]

    def differences(self, run: RunEntry, key: SeriesKey, current: Environment) -> tuple[str, ...]:
        """Return every difference between this series of ``run`` and ``current``."""
        name = (current.key, *run.cells[key.engine, key.workload])
        if name not in self._differences:
            self._differences[name] = tuple(diff(run.environment_of(key), current))
        return self._differences[name]
