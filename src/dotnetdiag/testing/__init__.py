"""For whoever tests a diagnostics client or writes a server: a scripted runtime, and the conformance checks.

May import anything below ``recipes``. Imported by no other room but the command line, whose verbs ``fake`` and ``conformance`` it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {
    "asked": "Asked",
    "conformance": "Outcome Result examine",
    "misbehaviour": "Misbehaviour",
    "recording": "Recording",
    "releases": "RELEASES Release find_release",
    "runtime": "Runtime",
    "talk": "Script Talk TalkEnded",
}
_MODULES = {name: module for module, names in _PUBLIC.items() for name in names.split()}
__getattr__ = loader(globals(), _MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)


if TYPE_CHECKING:
    from dotnetdiag.testing.asked import Asked as Asked
    from dotnetdiag.testing.conformance import Outcome as Outcome
    from dotnetdiag.testing.conformance import Result as Result
    from dotnetdiag.testing.conformance import examine as examine
    from dotnetdiag.testing.misbehaviour import Misbehaviour as Misbehaviour
    from dotnetdiag.testing.recording import Recording as Recording
    from dotnetdiag.testing.releases import RELEASES as RELEASES
    from dotnetdiag.testing.releases import Release as Release
    from dotnetdiag.testing.releases import find_release as find_release
    from dotnetdiag.testing.runtime import Runtime as Runtime
    from dotnetdiag.testing.talk import Script as Script
    from dotnetdiag.testing.talk import Talk as Talk
    from dotnetdiag.testing.talk import TalkEnded as TalkEnded
