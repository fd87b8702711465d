# SPDX-License-Identifier: Apache-2.0
"""The golden engine proper: admits jobs, plays their answers on time, and counts."""

import time
from collections import deque

from vllm_perf.golden.counters import Counters
from vllm_perf.golden.job import Job
from vllm_perf.golden.noise import NoiseSource
from vllm_perf.golden.prefix_cache import PrefixCache
from vllm_perf.golden.profile import Noise, ServerOptions
from vllm_perf.golden.reactor import Reactor
from vllm_perf.golden.records import Record, Records
from vllm_perf.golden.render import chunk, chunked_head
from vllm_perf.golden.streams import (
    NS_PER_MS,
    WORD_BYTES,
    WORD_COUNT,
    WORD_LENGTH,
    ChunkWriter,
    Plan,
    server_times,
    whole_answer,
)
from vllm_perf.golden.wire import Connection


class Engine:
    """Run at most ``max_num_seqs`` answers at once, first come first served."""

    def __init__(self, reactor: Reactor, options: ServerOptions, noise: Noise) -> None:
        """Start idle and cold."""
        self.reactor, self.options = reactor, options
        self.counters = Counters(options=options)
        self.records = Records()
        self.cache = PrefixCache(options.block_size, options.cache_blocks)
        self.noise = NoiseSource(noise)
        self._queue: deque[Play] = deque()
        self._cold_ns = round(options.cold_ms * NS_PER_MS)

    def submit(self, job: Job, connection: Connection) -> None:
        """Take a job; its answer goes to ``connection``."""
        record = Record(id=job.id, received_ns=job.received_ns, prompt_tokens=len(job.prompt))
        self.records.add(record)
        play = Play(self, job, connection, record)
        connection.on_close = play.abort
        if self.counters.running < self.options.max_num_seqs:
            play.start(job.received_ns)
        else:
            self._queue.append(play)
            self.counters.waiting = len(self._queue)

    def ended(self) -> None:
        """Take note that a running answer ended, and start the next."""
        self.counters.running -= 1
        while self._queue and self.counters.running < self.options.max_num_seqs:
            self._queue.popleft().start(time.perf_counter_ns())
        self.counters.waiting = len(self._queue)

    def take_cold_ns(self) -> int:
        """Return what the first request after the boot waits longer than all others."""
        cold_ns, self._cold_ns = self._cold_ns, 0
        return cold_ns

    def withdraw(self, play: "Play") -> None:
        """Take a job out of the queue again."""
        self._queue.remove(play)
        self.counters.waiting = len(self._queue)

    def count(self, record: Record, first_ns: int | None) -> None:
        """Count a finished answer in the histograms; ``first_ns``: its first token, if unsent."""
        counters, times = self.counters, server_times(record, first_ns)
        counters.finished[record.finish or "error"] += 1
        first_s = times["time_to_first_token_ms"] / 1e3
        decode_s, queue_s = times["generation_time_ms"] / 1e3, times["queue_time_ms"] / 1e3
        counters.observe("time_to_first_token_seconds", queue_s + first_s)
        counters.observe("request_queue_time_seconds", queue_s)
        counters.observe("request_prefill_time_seconds", first_s)
        counters.observe("request_decode_time_seconds", decode_s)
        counters.observe("request_inference_time_seconds", first_s + decode_s)
        counters.observe("e2e_request_latency_seconds", queue_s + first_s + decode_s)
        gaps = len(record.sent_ns) - 1 or record.output_tokens - 1
        counters.observe("inter_token_latency_seconds", decode_s, gaps)
        if record.output_tokens > 1:
            per_token_s = decode_s / (record.output_tokens - 1)
            counters.observe("request_time_per_output_token_seconds", per_token_s)
        counters.observe("request_prompt_tokens", record.prompt_tokens)
        counters.observe("request_generation_tokens", record.output_tokens)


class Play:
    """One answer being given."""

    def __init__(self, engine: Engine, job: Job, connection: Connection, record: Record) -> None:
        """Wait for ``start``."""
        self._engine, self._job, self._connection, self._record = engine, job, connection, record
        self._headed = self._over = False
        self._plan: Plan
        self._writer: ChunkWriter
        self._due_ns = 0.0
        self._unsent_first_ns: int | None = None
        self._counters = engine.counters
        self._frame = (b"", b"")

    def start(self, now_ns: int) -> None:
        """Begin at ``now_ns``: look the prompt up, and plan the first chunk."""
        engine, job, record = self._engine, self._job, self._record
        counters = engine.counters
        cached = engine.cache.take(job.prompt) if engine.options.prefix_caching else 0
        record.scheduled_ns, record.cached_tokens = now_ns, cached
        counters.prompt(len(job.prompt), cached)
        counters.running += 1
        engine.records.peak_in_flight = max(engine.records.peak_in_flight, counters.running)
        self._plan = Plan(job, engine.noise, len(job.prompt) - cached)
        self._writer = ChunkWriter(job, int(time.time()), cached)
        self._due_ns = now_ns + self._plan.first_ns + engine.take_cold_ns()
        if not job.stream:
            self._unsent_first_ns = round(self._due_ns)
            rest = sum(self._plan.gap_ns(1) for _ in range(job.output_tokens - 1))
            engine.reactor.call_at(round(self._due_ns + rest), self._whole)
            return
        if job.chat and job.profile.role_ms is not None:
            engine.reactor.call_at(round(now_ns + job.profile.role_ms * NS_PER_MS), self._role)
        engine.reactor.call_at(round(self._due_ns), self._fire)

    def abort(self) -> None:
        """Stop because the client went away."""
        if self._over:
            return
        self._over, self._record.finish = True, "abort"
        self._record.ended_ns = time.perf_counter_ns()
        self._counters.finished["abort"] += 1
        if self._record.scheduled_ns is None:
            self._engine.withdraw(self)
        else:
            self._engine.ended()

    def _write(self, data: bytes) -> int:
        if not self._headed:
            self._headed = True
            data = chunked_head() + data
        stamp = self._connection.write(data)
        self._record.blocked += self._connection.blocked
        return stamp

    def _role(self) -> None:
        if not self._over and not self._record.sent_ns:
            counts = self._writer.usage(0) if self._job.continuous_usage else None
            self._record.role_ns = self._write(chunk(self._writer.shape.role(counts)))

    def _fire(self) -> None:
        if self._over:
            return
        plan, record, writer = self._plan, self._record, self._writer
        size, field = plan.size(), plan.field()
        text = plan.text(size)
        plan.sent += size
        self._engine.counters.generation_tokens += size
        if field == "content" and record.answer_index is None:
            record.answer_index = len(record.sent_ns)
        last = plan.sent == self._job.output_tokens
        record.tokens.append(size)
        data = writer.last_text(text, field) if last else writer.text(text, field, plan.sent)
        record.sent_ns.append(self._write(data))
        if self._over:
            return
        if last:
            delay_ns = round(self._job.profile.usage_delay_ms * NS_PER_MS)
            if delay_ns:
                self._engine.reactor.call_at(record.sent_ns[-1] + delay_ns, self._finish)
            else:
                self._finish()
            return
        self._due_ns += plan.gap_ns(plan.size())
        if plan.steady:
            self._frame = writer.frame(field, WORD_LENGTH)
            self._engine.reactor.call_later(round(self._due_ns), plan.steady_gap_ns, self._fire_steady)
        else:
            self._engine.reactor.call_at(round(self._due_ns), self._fire)

    def _fire_steady(self) -> None:
        # The hot path: one token a chunk, all alike, none of them the last. 100,000 of these a second must
        # fit into one core, and more than half of that is the system call.
        if self._over:
            return
        plan, record, connection = self._plan, self._record, self._connection
        before, after = self._frame
        number = plan.sent
        plan.sent = number + 1
        self._counters.generation_tokens += 1
        record.tokens.append(1)
        record.sent_ns.append(connection.write(before + WORD_BYTES[number % WORD_COUNT] + after))
        if connection.blocked:
            record.blocked += 1
        due_ns = self._due_ns = self._due_ns + plan.steady_gap_ns
        again = self._fire_steady if number + 1 < plan.steady_until else self._fire
        self._engine.reactor.call_later(round(due_ns), plan.steady_gap_ns, again)

    def _finish(self) -> None:
        if self._over:
            return
        self._close_books()
        metrics = server_times(self._record) if self._engine.options.per_request_metrics else None
        self._write(self._writer.tail(metrics))
        self._connection.done()

    def _whole(self) -> None:
        if self._over:
            return
        record, job = self._record, self._job
        self._engine.counters.generation_tokens += job.output_tokens
        record.tokens.append(job.output_tokens)
        record.sent_ns.append(time.perf_counter_ns())
        self._close_books()
        cached = record.cached_tokens if self._engine.options.prefix_caching else None
        self._connection.write(whole_answer(job, int(time.time()), cached))
        self._connection.done()

    def _close_books(self) -> None:
        # Before the last bytes go out, so that whoever has read them finds the counters complete.
        self._over = True
        self._record.finish, self._record.ended_ns = self._job.finish, time.perf_counter_ns()
        self._engine.count(self._record, self._unsent_first_ns)
        self._engine.ended()
