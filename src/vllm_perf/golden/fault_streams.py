# SPDX-License-Identifier: Apache-2.0
"""Stream shapes, byte for byte; the ids are those of the project's case list, variants after a dash."""

from dataclasses import replace

from vllm_perf.golden.fault import JSON, Fault, Step

ROLE = '{"role":"assistant","content":""}'
DONE = b"data: [DONE]\n\n"
USAGE = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":'
    b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}\n\n'
)
AZURE_FIRST = (
    b'data: {"id":"","choices":[],"created":0,"model":"","object":"","system_fingerprint":null,'
    b'"prompt_filter_results":[{"prompt_index":0,"content_filter_results":'
    b'{"hate":{"filtered":false,"severity":"safe"}}}]}\n\n'
)
NESTED_ERROR = (
    b'data: {"error": {"message": "boom", "type": "InternalServerError", "param": null, "code": 500}}\n\n'
)
FLAT_ERROR = (
    b'data: {"object": "error", "message": "boom", "type": "InternalServerError",'
    b' "param": null, "code": 500}\n\n'
)


def delta(payload: str, finish: str = "null", more: str = "") -> bytes:
    """Return one chat chunk as the case list writes it."""
    return (
        f'data: {{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{{"index":0,'
        f'"delta":{payload},"finish_reason":{finish}}}]{more}}}\n\n'
    ).encode()


def text(payload: str, finish: str = "null") -> bytes:
    """Return one text-completion chunk as the case list writes it."""
    return (
        f'data: {{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{{"index":0,'
        f'"text":"{payload}","logprobs":null,"finish_reason":{finish},"stop_reason":null}}],"usage":null}}\n\n'
    ).encode()


def _content(word: str) -> bytes:
    return delta(f'{{"content":"{word}"}}')


def _step(at_ms: float, data: bytes, tokens: int = 0, answer: bool = True) -> Step:
    return Step(at_ms=at_ms, data=data, tokens=tokens, answer=answer)


def _usage(prompt: int, output: int) -> bytes:
    return USAGE % (prompt, output, prompt + output)


START = (_step(5, delta(ROLE)), _step(40, _content("A"), 1))
TWO = (*START, _step(50, _content("B"), 1))
END = (_step(60, delta("{}", '"stop"')), _step(61, _usage(5, 2)), _step(62, DONE))
FINISHED = (_step(60, delta("{}", '"stop"')), _step(62, DONE))


def _late_first(id: str, title: str, first: bytes) -> Fault:
    tail = (
        _step(224, _content("B"), 1),
        _step(225, delta("{}", '"stop"')),
        _step(225, _usage(5, 2)),
        _step(225, DONE),
    )
    return Fault(id=id, title=title, steps=(_step(5, first), _step(214, _content("A"), 1), *tail))


def _kept_alive(id: str, title: str, comment: bytes) -> Fault:
    steps = (
        _step(1, comment),
        _step(3, comment),
        START[0],
        _step(20, comment),
        *TWO[1:],
        _step(55, comment),
        *END,
    )
    return Fault(id=id, title=title, steps=steps)


def _reasoning(id: str, field: str) -> Fault:
    thoughts = [_step(60 + 22 * n, delta(f'{{"{field}":"Okay"}}'), 1, False) for n in range(400)]
    last = (
        _step(9000, _content("\\n\\n"), 1),
        _step(9020, _content("A"), 1),
        _step(9021, delta("{}", '"stop"')),
    )
    tail = (_step(9022, _usage(5, 402)), _step(9023, DONE))
    return Fault(
        id=id, title="reasoning before content", steps=(_step(5, delta(ROLE)), *thoughts, *last, *tail)
    )


def _several_a_chunk() -> Fault:
    chunks = [_step(100 + 9 * n, _content("one two three "), 3) for n in range(40)]
    tail = (_step(452, delta("{}", '"stop"')), _step(453, _usage(5, 120)), _step(454, DONE))
    return Fault(id="H26", title="several tokens a chunk", steps=(_step(5, delta(ROLE)), *chunks, *tail))


def _all_reasoning() -> Fault:
    thoughts = [_step(60 + 5 * n, delta('{"reasoning":"hm"}'), 1, False) for n in range(32)]
    usage = (
        delta("{}", '"length"'),
        (
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":'
            b'{"prompt_tokens":5,"completion_tokens":32,"total_tokens":37,'
            b'"completion_tokens_details":{"reasoning_tokens":32}}}\n\n'
        ),
    )
    tail = (_step(220, usage[0]), _step(221, usage[1]), _step(222, DONE))
    return Fault(
        id="H27", title="max_tokens spent on reasoning", steps=(_step(5, delta(ROLE)), *thoughts, *tail)
    )


def _tool_call() -> Fault:
    name = (
        '{"content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function",'
        '"function":{"name":"f","arguments":""}}]}'
    )
    arguments = '{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}'
    steps = (_step(5, delta(ROLE)), _step(40, delta(name), 1), _step(50, delta(arguments), 1))
    tail = (_step(60, delta("{}", '"tool_calls"')), _step(61, _usage(5, 2)), _step(62, DONE))
    return Fault(id="H25", title="an answer of one tool call", steps=(*steps, *tail))


H13 = Fault(id="H13", title="usage-only last chunk", steps=(*TWO, *END))

CASES = (
    _late_first("H12", "role-only first chunk", delta(ROLE)),
    _late_first("H12-no-content", "first chunk without content", delta('{"role":"assistant"}')),
    _late_first(
        "H12-null-content", "first chunk with null content", delta('{"role":"assistant","content":null}')
    ),
    _late_first("H12-empty", "empty first chunk without role", delta('{"content":""}')),
    H13,
    Fault(id="H14", title="Azure's first chunk", steps=(_step(2, AZURE_FIRST), *TWO, *END)),
    _kept_alive("H15", "comments as keep-alive", b": OPENROUTER PROCESSING\n\n"),
    _kept_alive("H15-bare", "empty comments as keep-alive", b":\n\n"),
    _kept_alive("H15-ping", "ping comments as keep-alive", b": ping\n\n"),
    Fault(id="H16", title="an event of retry only", steps=(_step(2, b"retry: 3000\n\n"), *TWO, *END)),
    Fault(
        id="H17",
        title="nested error inside a 200 stream",
        steps=(*START, _step(50, NESTED_ERROR), _step(51, DONE)),
    ),
    Fault(
        id="H18",
        title="flat error inside a 200 stream",
        steps=(*START, _step(50, FLAT_ERROR), _step(51, DONE)),
    ),
    Fault(id="H19", title="null as an event", steps=(_step(5, b"data: null\n\n"), _step(6, DONE))),
    Fault(id="H20", title="only [DONE]", steps=(_step(5, DONE),)),
    Fault(
        id="H21", title="no [DONE], closed", framing="close", steps=(*START, _step(50, delta("{}", '"stop"')))
    ),
    Fault(id="H21-chunked", title="no [DONE], body ended", steps=(*START, _step(50, delta("{}", '"stop"')))),
    Fault(id="H22", title="body cut by FIN", steps=START, end="fin", end_ms=60),
    Fault(id="H22-reset", title="body cut by RST", steps=START, end="reset", end_ms=60),
    replace(
        H13,
        id="H23",
        title="CRLF line endings",
        steps=tuple(replace(step, data=step.data.replace(b"\n", b"\r\n")) for step in H13.steps),
    ),
    _reasoning("H24", "reasoning"),
    _reasoning("H24-reasoning_content", "reasoning_content"),
    _tool_call(),
    _several_a_chunk(),
    _all_reasoning(),
    Fault(id="H28", title="usage never sent", steps=(*TWO, *FINISHED)),
    Fault(
        id="H28-null",
        title="usage null in every chunk",
        steps=tuple(
            replace(step, data=step.data.replace(b"}]}\n", b'}],"usage":null}\n'))
            for step in (*TWO, *FINISHED)
        ),
    ),
    Fault(
        id="H29",
        title="text-completion chunks",
        steps=(
            _step(5, text("")),
            _step(40, text("hi"), 1),
            _step(45, text("")),
            _step(50, text(" there"), 1),
            _step(60, text("", '"stop"')),
            _step(61, _usage(5, 2)),
            _step(62, DONE),
        ),
    ),
    Fault(
        id="H59",
        title="three tokens, two gaps",
        steps=(
            _step(5, delta(ROLE)),
            _step(200, _content("A"), 1),
            _step(210, _content("B"), 1),
            _step(220, _content("C"), 1),
            _step(221, delta("{}", '"stop"') + _usage(5, 3) + DONE),
        ),
    ),
    Fault(
        id="H60",
        title="finish reason without a token",
        steps=(
            _step(5, delta(ROLE)),
            _step(6, delta("{}", '"stop"')),
            _step(7, _usage(5, 0)),
            _step(8, DONE),
        ),
    ),
    Fault(
        id="H89",
        title="all chunks in one read, behind a buffering proxy",
        steps=(
            _step(80, delta(ROLE) + 20 * _content("A") + delta("{}", '"stop"') + _usage(5, 20) + DONE, 20),
        ),
    ),
    Fault(
        id="H10",
        title="200 with an error object",
        headers=JSON,
        framing="length",
        steps=(_step(0, b'{"error":{"message":"upstream overloaded","type":"server_error","code":"500"}}'),),
    ),
)
