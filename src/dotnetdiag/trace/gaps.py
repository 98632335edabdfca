"""Where events of a recording, or of a session, were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass

if TYPE_CHECKING:
    from dotnetdiag.nettrace import LossAccount


NEVER = 1 << 62
"""The end, in ns, of what has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """By the ``account`` of a file or session, if there is one; and what came, of all threads, and was ``dropped`` by who watches: from when to when,
    in ns since its begin, and how many.
    """

    account: LossAccount | None = None
    dropped: Sequence[tuple[int, int, int]] = ()
