# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with an engine.

LabError                 the lab is broken: no measurement was possible (exit code 11)
├── BootFailed           the engine died or never became ready; carries the diagnosis
├── NotAsAsked           the engine runs something else than its configuration says
├── TargetUnusable       a server that someone else runs does not answer as it must
└── LabBusy              another session holds the GPU set
"""

from vllm_perf.diagnosis.types import Diagnosis


class LabError(Exception):
    """Say that nothing could be measured, and why; ``diagnosis`` holds the whole story."""

    def __init__(self, title: str, diagnosis: Diagnosis) -> None:
        """Keep the diagnosis; the text is one paragraph a user can act on."""
        super().__init__(f"{title}\n{diagnosis.paragraph()}")
        self.title = title
        self.diagnosis = diagnosis


class BootFailed(LabError):
    """Report an engine that did not become ready."""


class NotAsAsked(LabError):
    """Report an engine that booted but runs another backend, kernel or cache than asked."""


class TargetUnusable(LabError):
    """Report an external server that cannot be measured."""


class LabBusy(LabError):
    """Report a GPU set that is held by someone else."""
