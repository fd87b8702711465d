# SPDX-License-Identifier: Apache-2.0
"""Decide whether a labelled pull request may run on the GPU box; runs before anything is installed.

Usage: ``python3 -m vllm_perf.gate.admission EVENT.json PULL.json PERMISSION.json``: what GitHub sent, the
pull request as it is now, and the permission of whoever set the label.
"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LABEL = "perf-gate"
# Whoever may label may not always merge: triage can label, and must not start code on our machine.
TRUSTED = ("admin", "maintain", "write")
SHA = re.compile(r"[0-9a-f]{40}")


class Refused(Exception):
    """Say why the pull request may not run."""


def admit(event: dict[str, Any], now: dict[str, Any], permission: dict[str, Any]) -> tuple[str, str]:
    """Return the commits that may run: base and head.

    Raises:
        Refused: a fork, another label, a sender who may not, a closed pull request, or a head that moved.
    """
    pull, repository = event["pull_request"], event["repository"]["full_name"]
    if event.get("label", {}).get("name") != LABEL:
        raise Refused(f"the label set was not '{LABEL}'")
    for which, state in (("when the label was set", pull), ("now", now)):
        source = (state["head"].get("repo") or {}).get("full_name")
        if source != repository:
            raise Refused(f"the head is in {source or 'a deleted fork'} {which}, not in {repository}")
    sender = event.get("sender", {}).get("login", "someone")
    role = permission.get("role_name") or permission.get("permission") or "none"
    if role not in TRUSTED:
        raise Refused(f"{sender} has the role '{role}'; one of {', '.join(TRUSTED)} is needed")
    if now.get("state") != "open":
        raise Refused(f"the pull request is {now.get('state')}")
    base, head = str(pull["base"]["sha"]), str(pull["head"]["sha"])
    if now["head"]["sha"] != head:
        raise Refused(f"the head moved from {head} to {now['head']['sha']} after the label; label it again")
    if not (SHA.fullmatch(base) and SHA.fullmatch(head)):
        raise Refused("base or head is not a full commit SHA")
    return base, head


def main(arguments: Sequence[str]) -> int:
    """Write ``base`` and ``head`` to ``$GITHUB_OUTPUT``; return 1 and say why where it is refused."""
    try:
        documents = [json.loads(Path(name).read_text(encoding="utf-8")) for name in arguments]
        event, now, permission = documents
        base, head = admit(event, now, permission)
    except (Refused, OSError, ValueError, KeyError, TypeError) as error:
        reason = (
            str(error) if isinstance(error, Refused) else f"cannot be read: {type(error).__name__}: {error}"
        )
        print(f"::error title=perf gate: refused::{reason}")
        return 1
    output = os.environ.get("GITHUB_OUTPUT")
    if output:
        with Path(output).open("a", encoding="utf-8") as stream:
            stream.write(f"base={base}\nhead={head}\n")
    print(f"admitted: base {base}, head {head}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
