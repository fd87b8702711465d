# SPDX-License-Identifier: Apache-2.0
"""Environments of many runs, each part held once and made an object only when it is looked at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from vllm_perf.history.environment import Environment, Hardware, Software, Workload, plain

_HARDWARE = TypeAdapter(Hardware)
_SOFTWARE = TypeAdapter(Software)
_WORKLOAD = TypeAdapter(Workload)


class PartKeys(NamedTuple):
    """The keys of one environment's parts."""

    hardware: str
    software: str
    workload: str


@dataclass(slots=True)
class PartTable:
    """Parts by key, as plain data until asked for: of 1,000 runs a comparison looks at one or two."""

    plain: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _built: dict[PartKeys, Environment] = field(default_factory=dict)

    def add(self, environment: Environment) -> PartKeys:
        """Take up ``environment`` and return its keys."""
        keys = PartKeys(environment.hardware_key, environment.software_key, environment.workload_key)
        self.plain[keys.hardware] = plain(environment.hardware)
        self.plain[keys.software] = plain(environment.software)
        self.plain[keys.workload] = plain(environment.workload)
        self._built[keys] = environment
        return keys

    def environment(self, keys: PartKeys) -> Environment:
        """Return the environment with these keys.

        Raises:
            KeyError: a part is not here.
        """
        if keys not in self._built:
            self._built[keys] = Environment(
                hardware=_HARDWARE.validate_python(self.plain[keys.hardware]),
                software=_SOFTWARE.validate_python(self.plain[keys.software]),
                workload=_WORKLOAD.validate_python(self.plain[keys.workload]),
            )
        return self._built[keys]
