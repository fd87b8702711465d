# SPDX-License-Identifier: Apache-2.0
"""Walk an exception's causes and look at them by class name and errno, so that no SDK has to be imported."""

import builtins
from collections.abc import Iterator


def chain(error: BaseException) -> tuple[BaseException, ...]:
    """Return ``error`` and all that caused it, outermost first; members of exception groups included."""
    return tuple(_walk(error, set()))


def _walk(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for member in error.exceptions if isinstance(error, builtins.BaseExceptionGroup) else ():
        yield from _walk(member, seen)
    # aiohttp and requests keep the operating system's error as an attribute as well.
    inner = (
        error.__cause__,
        error.__context__,
        getattr(error, "os_error", None),
        getattr(error, "reason", None),
    )
    for cause in inner:
        if isinstance(cause, BaseException):
            yield from _walk(cause, seen)


def names(errors: tuple[BaseException, ...]) -> frozenset[str]:
    """Return the class names of ``errors`` and of all their base classes."""
    return frozenset(cls.__name__ for error in errors for cls in type(error).__mro__)


def own_names(errors: tuple[BaseException, ...]) -> tuple[str, ...]:
    """Return the class name of each error, outermost first, without repeats."""
    return tuple(dict.fromkeys(type(error).__name__ for error in errors))


def errnos(errors: tuple[BaseException, ...]) -> frozenset[int]:
    """Return the operating system's error numbers among ``errors``."""
    return frozenset(
        error.errno for error in errors if isinstance(error, OSError) and isinstance(error.errno, int)
    )


def texts(errors: tuple[BaseException, ...]) -> str:
    """Return the texts of ``errors`` below the outermost, which is an SDK's, one a line."""
    return "\n".join(dict.fromkeys(str(error) for error in errors if str(error)))


def innermost_line(errors: tuple[BaseException, ...]) -> str:
    """Return the cause that says most: the operating system's error, else the last one with a text."""
    # A StopIteration only says where a parser stood.
    errors = tuple(error for error in errors if not isinstance(error, StopIteration)) or errors
    system = [error for error in errors if isinstance(error, OSError) and str(error).strip()]
    for error in system[-1:] or reversed(errors):
        if str(error).strip():
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return type(errors[-1]).__name__
