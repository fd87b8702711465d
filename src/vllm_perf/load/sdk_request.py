# SPDX-License-Identifier: Apache-2.0
"""One request through the openai SDK, as an application sends it, read into the same sample as our own."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import openai

from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.load.answer import Answer, BodyEnd, Sending, StreamResult
from vllm_perf.load.chunk import error_text
from vllm_perf.load.facts import StreamFacts
from vllm_perf.load.failures import answer_classifier, way_failure
from vllm_perf.load.fetch import tls_context
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.stream import parse_stream, to_sample

OK_STATUS = 200


def sdk_client(target: Target, connections: int) -> openai.AsyncOpenAI:
    """Return an SDK client that never retries, uses no proxy of the environment, and is not held back by its
    own pool."""
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
        max_connections=connections, max_keepalive_connections=connections
    )
    transport = openai.DefaultAsyncHttpxClient(
        limits=limits, trust_env=False, proxy=target.proxy, verify=tls_context(target)
    )
    return openai.AsyncOpenAI(
        base_url=target.base_url,
        api_key=target.api_key or "none",
        max_retries=0,
        timeout=None,
        http_client=transport,
    )


class SdkSender:
    """Send requests of one plan; whatever happens to one becomes its sample."""

    def __init__(self, plan: LoadPlan, client: openai.AsyncOpenAI, url: str) -> None:
        """Bind the parts; ``url`` is where requests go, for what is said of a failure."""
        self._plan = plan
        self._client = client
        self._url = url
        # The SDK insists on a key: without one its header is left out.
        self._headers: dict[str, str | openai.Omit] = (
            {} if plan.target.api_key else {"Authorization": openai.Omit()}
        )
        self._classify = answer_classifier(plan.target, url)

    async def send(self, planned: PlannedRequest, request_id: str, scheduled_ns: int) -> RequestSample:
        """Send one request and return its sample.

        ``sent_ns`` is when the application calls the SDK: what that does before the first byte leaves, and
        connecting where it has to, is in TTFT. A chunk's time is when the SDK hands it out.
        """
        body = json.loads(planned.body)
        facts, events = StreamFacts(), 0
        pinned = planned.output_tokens or self._plan.pinned_output_tokens
        sent_ns = time.perf_counter_ns()
        try:
            async with asyncio.timeout(self._plan.request_timeout_s):
                async for chunk in await self._create(body, request_id):
                    _take(facts, time.perf_counter_ns(), chunk)
                    events += 1
            # The SDK keeps [DONE] to itself.
            facts.done = None
            result = facts.finish(BodyEnd.CLEAN, time.perf_counter_ns(), pinned_output_tokens=pinned)
            result = replace(result, status=OK_STATUS)
        except TimeoutError:
            result = facts.finish(BodyEnd.TIMEOUT, time.perf_counter_ns(), pinned_output_tokens=pinned)
        except openai.APIStatusError as error:
            result = self._refused(error)
        except Exception as error:  # noqa: BLE001 - some SDKs let json's and httpx's own errors through
            result = self._broken(error, facts, events)
        sending = Sending(
            id=request_id, prompt_id=planned.prompt_id, scheduled_ns=scheduled_ns, sent_ns=sent_ns
        )
        return to_sample(sending, result)

    async def _create(self, body: dict[str, Any], request_id: str) -> AsyncIterator[Any]:
        body.pop("stream", None)
        headers = {**self._headers, "X-Request-Id": request_id}
        model = body.pop("model", self._plan.target.model)
        if self._plan.endpoint == "chat":
            messages = body.pop("messages", [])
            return await self._client.chat.completions.create(
                model=model, messages=messages, stream=True, extra_body=body, extra_headers=headers
            )
        prompt = body.pop("prompt", "")
        return await self._client.completions.create(
            model=model, prompt=prompt, stream=True, extra_body=body, extra_headers=headers
        )

    def _refused(self, error: openai.APIStatusError) -> StreamResult:
        response, end_ns = error.response, time.perf_counter_ns()
        answer = Answer(
            status=response.status_code,
            pieces=[(end_ns, response.content)],
            end=BodyEnd.CLEAN,
            end_ns=end_ns,
            headers={name.lower(): value for name, value in response.headers.items()},
        )
        return parse_stream(answer, classify=self._classify)

    def _broken(self, error: Exception, facts: StreamFacts, events: int) -> StreamResult:
        """Name what the SDK raised: an error inside the stream, a cut body, no way to the server."""
        end_ns, target = time.perf_counter_ns(), self._plan.target
        inner = getattr(error, "body", None)
        if isinstance(error, openai.APIError) and inner is not None:
            facts.error = error_text({"error": inner})
        result = facts.finish(BodyEnd.TRUNCATED if events else BodyEnd.RESET, end_ns)
        if facts.error is not None:
            return replace(result, status=OK_STATUS)
        if not events and not isinstance(error, ValueError):
            outcome, detail, remedy = way_failure(error, target, self._url)
            return replace(result, outcome=outcome, detail=detail, remedy=remedy)
        found = classify_exception(error, url=self._url, env={}, key=target.api_key, after_chunks=events)
        said = f"{found.cause}: {found.evidence}"
        return replace(result, status=OK_STATUS, outcome=found.category, detail=said, remedy=found.remedy)


def _take(facts: StreamFacts, ns: int, chunk: Any) -> None:
    """Take a chunk as the SDK gives it: a model object, or ``None`` for a JSON null."""
    if chunk is None:
        facts.null_events += 1
    else:
        facts.take(ns, chunk.model_dump(exclude_unset=True, warnings=False))
