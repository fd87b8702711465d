# SPDX-License-Identifier: Apache-2.0
"""Count tokens roughly and without asking anyone: for channels that have no ``/tokenize``."""

from vllm_perf.load.counting import Prompt

TEMPLATE_TOKENS = 8


class RoughCounter:
    """Count every word as one token, and a few for the template.

    Counting by asking costs money on a channel and warms its caches. What the prompts really were is in the
    channel's ``usage``, and is shown.
    """

    sends_prompts = False

    def count(self, prompt: Prompt, *, generation_prompt: bool = True) -> int:
        """Return the words of ``prompt`` plus its template's share; all words count alike."""
        texts = [prompt] if isinstance(prompt, str) else [str(one.get("content", "")) for one in prompt]
        added = TEMPLATE_TOKENS if generation_prompt else 0
        return added + sum(len(text.split()) for text in texts)
