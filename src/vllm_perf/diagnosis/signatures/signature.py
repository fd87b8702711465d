# SPDX-License-Identifier: Apache-2.0
"""One known failure of vLLM: the text it leaves, what it means, what to do."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.spec.category import Category

Figures = dict[str, float | int | str]
# Groups that are never numbers, whatever they look like.
_TEXT = ("value", "choices", "arguments", "reason", "model")
Text = str | Callable[[Figures, BootContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A failure's text. One blank in ``pattern`` stands for any white space, so that wrapped lines match.

    Named groups become figures: digits (commas allowed) an int, decimals a float, anything else text.
    ``derive`` adds figures computed from those; ``cause`` and ``remedy`` are templates over the figures, or
    functions of figures and context. ``weak``: only believed where no other signature matches, because it is
    often the first link of a chain that ends in something more telling. ``refine`` picks the category where
    it depends on the context. ``versions``: the vLLM it was seen in
    (a bug thread or a boot of our own), or whose source it was only read in.
    """

    name: str
    category: Category
    pattern: str
    cause: Text
    remedy: Text
    versions: str
    weak: bool = False
    derive: Callable[[Figures, BootContext], Figures] | None = None
    refine: Callable[[BootContext], Category] | None = None

    def category_in(self, context: BootContext) -> Category:
        """Return the category of a match in this context."""
        return self.refine(context) if self.refine else self.category

    def spaced(self) -> re.Pattern[str]:
        """Return the pattern for text whose lines may be wrapped between words."""
        return re.compile(_with_commas(self.pattern).replace(" ", r"\s+"))

    def squeezed(self) -> re.Pattern[str]:
        """Return the pattern for text without any white space, for lines wrapped inside words."""
        return re.compile(_with_commas(self.pattern).replace(" ", ""))

    def figures(self, found: re.Match[str], context: BootContext) -> Figures:
        """Return the numbers and names of one match."""
        texts = {name: text for name, text in found.groupdict().items() if text is not None}
        read: Figures = {
            name: " ".join(text.split()) if name in _TEXT else _value(text) for name, text in texts.items()
        }
        return {**read, **(self.derive(read, context) if self.derive else {})}


def _with_commas(pattern: str) -> str:
    """Return the pattern for numbers that may be written 32,768."""
    return pattern.replace(r"\d+", r"\d[\d,]*")


def fill(text: Text, figures: Figures, context: BootContext) -> str:
    """Return ``text`` with its figures in place."""
    return text.format_map(figures) if isinstance(text, str) else text(figures, context)


def _value(text: str) -> float | int | str:
    plain = text.strip().replace(",", "")
    if re.fullmatch(r"-?\d+", plain):
        return int(plain)
    if re.fullmatch(r"-?\d+\.\d+", plain):
        return float(plain)
    return " ".join(text.split())
