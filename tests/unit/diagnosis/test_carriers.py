# SPDX-License-Identifier: Apache-2.0
"""The same logs after what terminals and platforms do to them: prefixes, records, colours, hard wrapping."""

import json
from collections.abc import Callable

import pytest

from tests.unit.diagnosis.test_boot_logs import EXPECTED, read
from tests.unit.diagnosis.test_healthy_logs import BOOTING, UP, WHILE_BOOTING, WHILE_SERVING
from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.logtext import read_lines

Carrier = Callable[[str], str]


def each(change: Callable[[int, str], str]) -> Carrier:
    return lambda text: "".join(f"{change(*numbered)}\n" for numbered in enumerate(text.splitlines()))


def wrapped(columns: int) -> Carrier:
    """Cut every line at the right edge of a terminal, inside words too."""

    def cut(_: int, line: str) -> str:
        return "\n".join(line[start : start + columns] for start in range(0, len(line), columns))

    return each(cut)


CARRIERS: dict[str, Carrier] = {
    "journalctl": each(lambda _, line: f"2025-11-30T10:00:09+0100 gpu7 vllm[77]: {line}"),
    "ts": each(lambda number, line: f"Nov 30 10:00:{number % 60:02d} {line}"),
    "a shell's mark": each(lambda _, line: f"srv7> {line}"),
    "a mark without a blank": each(lambda _, line: f"[lab]{line}"),
    "counted": each(lambda number, line: f"<11:02:0{number % 10}> web/{number} {line}"),
    "a platform's table": each(
        lambda number, line: f"2025-11-30 10:00:09.123 | {('info', 'error')[number % 2]:5} | 3x8abc | {line}"
    ),
    "an app's router": each(lambda _, line: f"2025-11-30T10:00:09.123456+00:00 app[web.1]: {line}"),
    "wall time": each(lambda number, line: f"10:00:09.{number:03d} {line}"),
    "seconds since the start": each(lambda number, line: f"[{number * 0.5:9.3f}] {line}"),
    "JSON, textPayload": each(
        lambda _, line: json.dumps({"textPayload": line, "severity": "INFO"}, ensure_ascii=False)
    ),
    "JSON, line": each(lambda _, line: json.dumps({"line": line, "ts": "1"}, ensure_ascii=False)),
    "JSON, nested": each(lambda _, line: json.dumps({"jsonPayload": {"message": line}}, ensure_ascii=False)),
    "colours": each(lambda _, line: f"\x1b[33m{line}\x1b[0m"),
    "80 columns": wrapped(80),
    "132 columns": wrapped(132),
}
carried = pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS.keys())


@carried
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_log_keeps_its_category(name: str, carrier: Carrier) -> None:
    found = classify_boot(carrier(read(name)), exit_code=None)
    assert (found.category if found else None) is EXPECTED[name]


@carried
@pytest.mark.parametrize("text", WHILE_BOOTING.values(), ids=WHILE_BOOTING.keys())
def test_frightening_words_of_a_boot_stay_nothing(text: str, carrier: Carrier) -> None:
    assert classify_boot(carrier(BOOTING + text + UP), exit_code=None) is None


@carried
@pytest.mark.parametrize("text", WHILE_SERVING.values(), ids=WHILE_SERVING.keys())
def test_frightening_words_of_a_serving_server_stay_nothing(text: str, carrier: Carrier) -> None:
    assert classify_boot(carrier(BOOTING + UP + text), exit_code=None) is None


@carried
def test_lines_keep_their_numbers(carrier: Carrier) -> None:
    log = carrier(read("cpu-0.32-real-awq-on-plain"))
    for line in read_lines(log):
        assert line.text.strip()[:8] in log.split("\n")[line.number - 1].replace('\\"', '"')


def test_indentation_behind_an_unknown_prefix_stays() -> None:
    stamped = "INFO 11-30 06:44:46 [a.py:1] x\n" * 3
    text = each(lambda _, line: f"web> {line}")(stamped + "Traceback (most recent call last):\n  File x\n")
    assert [line.text for line in read_lines(text)][-1] == "  File x"


def test_short_log_of_lines_of_one_length_is_not_taken_for_wrapped() -> None:
    log = "".join(f"INFO 11-30 06:44:4{second} [a.py:1] step {second} of many\n" for second in range(5))
    assert len(read_lines(log + "Killed\n")) == 6
