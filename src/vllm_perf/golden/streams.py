# SPDX-License-Identifier: Apache-2.0
"""An answer in the making: chunks written when they are due, each write on record."""

from vllm_perf.golden.job import Job
from vllm_perf.golden.noise import NoiseSource
from vllm_perf.golden.records import Record
from vllm_perf.golden.render import DONE, LAST_CHUNK, ChunkShape, chunk, dumps, usage, whole

WORDS = tuple(f" t{number}" for number in range(100, 1000))
WORD_BYTES = tuple(word.encode() for word in WORDS)
WORD_COUNT = len(WORDS)
WORD_LENGTH = len(WORDS[0])
NS_PER_MS = 1_000_000


class Plan:
    """What the chunks of one job hold and when they are due, as far as that is known beforehand."""

    def __init__(self, job: Job, noise: NoiseSource, uncached_tokens: int) -> None:
        """Draw the job's noise."""
        profile = job.profile
        factor = noise.request_factor()
        self._job, self._noise = job, noise
        self._gap_ns = profile.itl_ms * factor * NS_PER_MS
        prefill_ns = profile.prefill_us * uncached_tokens * 1_000
        self.first_ns = round((profile.ttft_ms * NS_PER_MS + prefill_ns) * factor)
        self.sent = 0
        self.steady_gap_ns = round(self._gap_ns)
        single = profile.tokens_per_chunk == 1 and not profile.empty_every and not noise.gaps_vary
        # Tokens from 2 to the last but one are all alike, if they all go to the same channel.
        self._alike = single and not job.continuous_usage
        self.steady_until = job.output_tokens - 1

    @property
    def steady(self) -> bool:
        """Tell whether the next chunks, up to token ``steady_until``, differ in their word only."""
        in_answer = self.sent > self._job.profile.reasoning_tokens or not self._job.profile.reasoning_tokens
        return self._alike and in_answer and 0 < self.sent < self.steady_until

    def size(self) -> int:
        """Return the tokens of the next chunk."""
        profile = self._job.profile
        wanted = (profile.first_chunk_tokens or profile.tokens_per_chunk) if not self.sent else 0
        return min(wanted or profile.tokens_per_chunk, self._job.output_tokens - self.sent)

    def gap_ns(self, tokens: int) -> float:
        """Return the time from the chunk before to one of ``tokens`` tokens."""
        if not self._noise.gaps_vary:
            return self._gap_ns * tokens
        return sum(self._gap_ns * self._noise.gap_factor() for _ in range(tokens))

    def field(self) -> str:
        """Return the channel of the next chunk."""
        profile = self._job.profile
        return profile.reasoning_field if self.sent < profile.reasoning_tokens else "content"

    def text(self, tokens: int) -> str:
        """Return the text of the next chunk of ``tokens`` tokens."""
        every = self._job.profile.empty_every
        if tokens == 1 and not every:
            return WORDS[self.sent % len(WORDS)]
        numbers = range(self.sent, self.sent + tokens)
        return "".join("" if every and (n + 1) % every == 0 else WORDS[n % len(WORDS)] for n in numbers)


class ChunkWriter:
    """Write HTTP chunks with one event each; ordinary ones by joining three pieces of bytes."""

    def __init__(self, job: Job, created: int, cached: int | None) -> None:
        """Fix what the job's chunks share."""
        self._job, self._cached = job, cached
        self.shape = ChunkShape(job.id, job.model, created, job.chat)
        self._frames: dict[tuple[str, int], tuple[bytes, bytes]] = {}

    def usage(self, output: int) -> dict[str, object]:
        """Return the usage after ``output`` tokens."""
        reasoning = min(output, self._job.profile.reasoning_tokens)
        return usage(len(self._job.prompt), output, self._cached, reasoning)

    def text(self, text: str, field: str, sent: int) -> bytes:
        """Return one chunk of generated text, after which ``sent`` tokens are out."""
        if self._job.continuous_usage:
            return chunk(self.shape.text(text, field, None, usage(len(self._job.prompt), sent)))
        before, after = self.frame(field, len(text))
        return b"".join((before, text.encode(), after))

    def frame(self, field: str, length: int) -> tuple[bytes, bytes]:
        """Return what stands before and after an ordinary text of ``length``."""
        frame = self._frames.get((field, length))
        if frame is None:
            # The text holds no character that JSON or UTF-8 writes longer: its length is all that counts.
            whole, filler = chunk(self.shape.text("#" * length, field)), b'"' + b"#" * length + b'"'
            before, _, after = whole.partition(filler)
            frame = self._frames[field, length] = (before + b'"', b'"' + after)
        return frame

    def last_text(self, text: str, field: str) -> bytes:
        """Return the chunk of the last tokens, which carries the finish reason unless that comes apart."""
        if self._job.profile.finish_apart or self._job.profile.usage == "finish":
            return chunk(self.shape.text(text, field))
        counts = self.usage(self._job.output_tokens) if self._job.continuous_usage else None
        return chunk(self.shape.text(text, field, self._job.finish, counts))

    def tail(self, metrics: dict[str, float] | None) -> bytes:
        """Return what follows the last token: an own finish chunk, usage, [DONE], and the end of the body."""
        job = self._job
        counts = self.usage(job.output_tokens)
        parts = []
        if job.profile.usage == "finish":
            parts.append(self.shape.text("", "content", job.finish, counts if job.include_usage else None))
        elif job.profile.finish_apart:
            parts.append(self.shape.finish(job.finish))
        if job.profile.usage == "chunk" and job.include_usage:
            parts.append(self.shape.usage(counts, metrics))
        return b"".join(chunk(part) for part in [*parts, DONE]) + LAST_CHUNK


def whole_answer(job: Job, created: int, cached: int | None) -> bytes:
    """Return the complete answer to a request without ``stream``."""
    texts = [WORDS[number % len(WORDS)] for number in range(job.output_tokens)]
    split = job.profile.reasoning_tokens if job.chat else 0
    text, reasoning = "".join(texts[split:]), "".join(texts[:split])
    choice: dict[str, object] = {
        "index": 0,
        "logprobs": None,
        "finish_reason": job.finish,
        "stop_reason": None,
    }
    if job.chat:
        message = {"role": "assistant", "content": text, job.profile.reasoning_field: reasoning or None}
        choice["message"] = {**message, "tool_calls": []}
    else:
        choice["text"] = text
    value = {
        "id": f"{'chatcmpl' if job.chat else 'cmpl'}-{job.id}",
        "object": "chat.completion" if job.chat else "text_completion",
        "created": created,
        "model": job.model,
        "choices": [choice],
        "usage": usage(len(job.prompt), job.output_tokens, cached, min(split, job.output_tokens)),
    }
    return whole(200, dumps(value))


def server_times(record: Record, first_ns: int | None = None) -> dict[str, float]:
    """Return vLLM's per-request metrics of a finished record, in ms."""
    scheduled = record.scheduled_ns or record.received_ns
    first = first_ns or record.first_token_ns or scheduled
    last = record.last_token_ns or scheduled
    tokens = record.output_tokens
    times = {
        "time_to_first_token_ms": (first - scheduled) / NS_PER_MS,
        "generation_time_ms": (last - first) / NS_PER_MS,
        "queue_time_ms": (scheduled - record.received_ns) / NS_PER_MS,
    }
    if tokens > 1:
        times["mean_itl_ms"] = (last - first) / (tokens - 1) / NS_PER_MS
    return {**times, "tokens_per_second": tokens / max(last - scheduled, 1) * 1e9}
