# SPDX-License-Identifier: Apache-2.0
"""Further stream shapes that peers get wrong, under names of their own."""

from vllm_perf.golden.fault import HTML, JSON, Fault, Step
from vllm_perf.golden.fault_streams import DONE, ROLE, START, USAGE, delta

PAGE = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>It works</body></html>"
WHOLE = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"A B"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}'
)


def _word(at_ms: float, word: str) -> Step:
    return Step(at_ms=at_ms, data=delta(f'{{"content":"{word}"}}'), tokens=1)


THREE = (*START, _word(50, "B"), _word(60, "C"))
STOP = Step(at_ms=70, data=delta("{}", '"stop"'))
USAGE_3 = Step(at_ms=71, data=USAGE % (5, 3, 8))
LAST = Step(at_ms=72, data=DONE)

CASES = (
    Fault(id="clean-cut", title="three tokens, then the body ends as if it were whole", steps=THREE),
    Fault(id="no-finish", title="[DONE] without a finish reason", steps=(*THREE, LAST)),
    Fault(id="stall", title="three tokens, then silence", steps=THREE, end="stall"),
    Fault(id="no-answer", title="the request is read and never answered", end="stall"),
    Fault(
        id="slow-head",
        title="headers after 150 ms, tokens as planned after them",
        head_ms=150,
        steps=tuple(
            Step(at_ms=160 + s.at_ms, data=s.data, tokens=s.tokens) for s in (*THREE, STOP, USAGE_3, LAST)
        ),
    ),
    Fault(id="reset-at-once", title="connection reset instead of an answer", end="reset", end_ms=5),
    Fault(id="closed-at-once", title="connection closed instead of an answer", end="fin", end_ms=5),
    Fault(
        id="finished-then-cut",
        title="finish reason, then cut by FIN",
        steps=(*THREE, STOP),
        end="fin",
        end_ms=80,
    ),
    Fault(
        id="done-then-cut",
        title="[DONE], then cut by FIN",
        steps=(*THREE, STOP, USAGE_3, LAST),
        end="fin",
        end_ms=80,
    ),
    Fault(
        id="done-then-open",
        title="[DONE], but the body never ends",
        steps=(*THREE, STOP, USAGE_3, LAST),
        end="stall",
    ),
    Fault(
        id="not-json",
        title="an event that is no JSON",
        steps=(*START, Step(at_ms=50, data=b"data: oops\n\n"), STOP, LAST),
    ),
    Fault(id="empty-200", title="200 with an empty body", framing="length"),
    Fault(
        id="page-200",
        title="200 with a web page",
        headers=HTML,
        framing="length",
        steps=(Step(at_ms=0, data=PAGE),),
    ),
    Fault(
        id="whole-200",
        title="one JSON document instead of a stream",
        headers=JSON,
        framing="length",
        steps=(Step(at_ms=30, data=WHOLE),),
    ),
    Fault(
        id="late-usage",
        title="usage half a second after the last token",
        steps=(*THREE, STOP, Step(at_ms=560, data=USAGE % (5, 3, 8)), Step(at_ms=561, data=DONE)),
    ),
    Fault(
        id="usage-on-finish",
        title="usage on the finish chunk, whose content is empty",
        steps=(
            *THREE,
            Step(
                at_ms=70,
                data=delta(
                    '{"content":""}',
                    '"stop"',
                    ',"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}',
                ),
            ),
            LAST,
        ),
    ),
    Fault(
        id="error-string",
        title="an error that is a string",
        steps=(*START, Step(at_ms=50, data=b'data: {"error":"boom"}\n\n'), LAST),
    ),
    Fault(
        id="function-call",
        title="the older function_call",
        steps=(
            Step(at_ms=5, data=delta(ROLE)),
            Step(at_ms=40, data=delta('{"function_call":{"name":"f","arguments":""}}'), tokens=1),
            Step(at_ms=50, data=delta('{"function_call":{"arguments":"{}"}}'), tokens=1),
            Step(at_ms=60, data=delta("{}", '"function_call"')),
            Step(at_ms=61, data=USAGE % (5, 2, 7)),
            LAST,
        ),
    ),
)
