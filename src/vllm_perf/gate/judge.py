# SPDX-License-Identifier: Apache-2.0
"""Judge pairs of boots, workload by workload."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vllm_perf.gate.boot import Pair, sent
from vllm_perf.gate.decision import Decision
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.sides import side_of
from vllm_perf.gate.spoiled import passes_by_itself, spoiled
from vllm_perf.metrics.reasons import InvalidCode, InvalidReason
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import GateDecision, Next, decide_gate
from vllm_perf.verdict.side import Side, Work
from vllm_perf.verdict.types import Change

HEAD_FAILS = f"head: {InvalidCode.TOO_MANY_FAILED}:"
CONFIRMED_BY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """How pairs are judged; ``policies`` go by workload, because their noise floors differ.

    The chance of a false alarm, ``Policy.alpha``, is shared out over the workloads.
    """

    workloads: tuple[str, ...]
    limits: Limits
    policies: Mapping[str, Policy] = field(default_factory=dict)

    def __call__(self, pairs: Sequence[Pair]) -> Decision:
        """Return where the gate stands after ``pairs``."""
        return Decision(workloads={name: self._workload(name, sent(pairs, name)) for name in self.workloads})

    def _workload(self, workload: str, pairs: Sequence[Pair]) -> GateDecision:
        policy = self.policies.get(workload, Policy())
        policy = replace(policy, alpha=policy.alpha / len(self.workloads))
        standing = decide_gate([_sides(pair, workload) for pair in pairs], self.limits.plan, policy)
        change, reason = _known_without_times(pairs, workload)
        if not reason or standing.next is Next.STOP:
            return standing
        return replace(standing, next=Next.STOP, change=change, missing_pairs=None, reason=reason)


def _sides(pair: Pair, workload: str) -> tuple[Side, Side]:
    """Return the pair's two sides, marked as invalid where the pair was spoiled."""
    reasons = spoiled(pair, workload)
    cells = pair.cells(workload)
    if reasons or cells is None:
        nothing = Side(values={}, work=Work(sent=0, failed=0), reasons=(_reason(reasons),))
        return nothing, nothing
    return side_of(cells[0]), side_of(cells[1])


def _reason(reasons: Sequence[str]) -> InvalidReason:
    # The sentences name code and remedy already; this only carries them through the verdict.
    code = next(
        (code for code in InvalidCode if any(f"{code}:" in text for text in reasons)), InvalidCode.GPU
    )
    return InvalidReason(
        code=code, sentence=reasons[0] if reasons else "nothing was measured", remedy="measured again"
    )


def _known_without_times(pairs: Sequence[Pair], workload: str) -> tuple[Change, str]:
    """Return what is known although no pair has times to compare, and why; no reason: measure on.

    A head that fails requests which base answers, in two pairs out of two, is a regression. Anything else
    that every pair so far was spoiled by, and that measuring again would not change, is no verdict.
    """
    reasons = [spoiled(pair, workload) for pair in pairs]
    if not reasons or not all(reasons):
        return Change.INCONCLUSIVE, ""
    if all(text.startswith(HEAD_FAILS) for pair in reasons for text in pair):
        if len(reasons) < CONFIRMED_BY:
            return Change.INCONCLUSIVE, ""
        return Change.REGRESSED, f"head fails what base answers, in {len(reasons)} pairs: {reasons[-1][0]}"
    if passes_by_itself(reasons[-1]):
        return Change.INCONCLUSIVE, ""
    return Change.INCONCLUSIVE, f"cannot be judged, and measuring again would not help: {reasons[-1][0]}"
