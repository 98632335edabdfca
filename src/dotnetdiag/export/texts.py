"""Texts of traces in files: any name there may be, valid in every format."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag._patterns import BIDI
from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.analysis.tracks import Tracks

_TURNING = {code: f"\\u{code:04x}" for code in BIDI if code not in (0x2028, 0x2029)}
quoted = encode_basestring_ascii
"""A JSON string of a :func:`clean` text, in ASCII: valid in any encoding, and without U+2028."""


def clean(text: str) -> str:
    """The text with U+FFFD in the place of lone surrogates, which UTF-8 cannot hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def plain(text: str) -> str:
    """As :func:`clean`, for what people read: characters that turn round what follows them are written as such, ``\\u202e``."""
    text = clean(text)
    return text if text.isascii() else text.translate(_TURNING)


def profile_only(result: object, format_name: str) -> StackProfile:
    """The result, if it is one profile. Raises UsageError for anything else.

    Weights that cannot be laid side by side (negative, infinite, no number: a field of an event may hold anything)
    count nothing.
    """
    if isinstance(result, StackProfile):
        possible = np.isfinite(result.weight) & (result.weight >= 0)
        return result if possible.all() else replace(result, weight=np.where(possible, result.weight, 0.0))
    if isinstance(result, ProfileDiff):
        from dotnetdiag.export import FORMATS

        others = ", ".join(name for name, one in FORMATS.items() if one.differences)
        raise UsageError(f"{format_name} cannot show a difference; {others} can")
    raise UsageError(f"{format_name} shows profiles, not a {type(result).__name__}")


def frame_texts(profile: StackProfile | ProfileDiff, frame_ids: list[int], style: Style | None) -> list[str]:
    """The printed names of some frames."""
    frames = profile.frames
    return [clean(frames.name(number, style or Style.FULL)) for number in frame_ids]


def thread_names(tracks: Tracks) -> dict[tuple[int, int], str]:
    """The names of threads that have one, by process (0: not told) and id: those of the recording, and else those of the samples, which know the
    threads of the pool.
    """
    sampled = {one.key: one.name for one in tracks.samples.threads if one.name}
    return sampled | {key: name for key, name in tracks.threads.items() if name}


def file_stem(name: str) -> str:
    """``app`` of ``app.nettrace`` and ``app.nettrace.xz``."""
    for suffix in (".xz", ".gz", ".nettrace", ".netperf"):
        name = name.removesuffix(suffix)
    return name
