"""Texts of traces in files: any name there may be, valid in every format."""

from __future__ import annotations

from json.encoder import encode_basestring_ascii

from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.method_names import Style

quoted = encode_basestring_ascii
"""A JSON string of a :func:`clean` text, in ASCII: valid in any encoding, and without U+2028."""


def clean(text: str) -> str:
    """The text with U+FFFD in the place of lone surrogates, which UTF-8 cannot hold."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def profile_only(result: object, format_name: str) -> StackProfile:
    """The result, if it is one profile. Raises UsageError for anything else."""
    if isinstance(result, StackProfile):
        return result
    if isinstance(result, ProfileDiff):
        raise UsageError(f"{format_name} cannot show a difference; collapsed, csv, flamegraph and json can")
    raise UsageError(f"{format_name} shows profiles, not a {type(result).__name__}")


def frame_texts(profile: StackProfile | ProfileDiff, frame_ids: list[int], style: Style | None) -> list[str]:
    """The printed names of some frames."""
    frames = profile.frames
    return [clean(frames.name(number, style or Style.FULL)) for number in frame_ids]


def file_stem(name: str) -> str:
    """``app`` of ``app.nettrace`` and ``app.nettrace.xz``."""
    for suffix in (".xz", ".gz", ".nettrace", ".netperf"):
        name = name.removesuffix(suffix)
    return name
