"""``System.Diagnostics.Metrics``: the meters of a Python process: ``System.Runtime`` and those of OpenTelemetry.

Each session has its own intervals and gets what it asked for, and nothing that is another's: no session is told
``MultipleSessionsNotSupportedError``, as the second one of a .NET process is. Sessions with the id ``SHARED`` must agree on their settings,
as there: who does not is told ``MultipleSessionsConfiguredIncorrectlyError``, and nothing else.
"""

from __future__ import annotations

from dotnetdiag.server import leaving
from dotnetdiag.server.meter_events import PROVIDER
from dotnetdiag.server.meter_request import MeterRequest
from dotnetdiag.server.meter_session import MeterSession
from dotnetdiag.server.subscription import Subscription


class Meters:
    """The provider. While no session wants meters nothing is read, and OpenTelemetry knows nothing of us."""

    name = PROVIDER

    def __init__(self) -> None:
        self._sessions: tuple[MeterSession, ...] = ()

    def join(self, subscription: Subscription) -> None:
        """Begin to tell a session. Raises RuntimeError when the system has no thread for it."""
        shared = next((one.request for one in self._sessions if one.request.is_shared), None)
        request = MeterRequest.of(subscription.arguments, None if shared is None else shared.settings)
        session = MeterSession(subscription, request)
        if not session.is_wanted:
            return
        session.greet()
        if shared is not None and request.is_shared and request.settings != shared.settings:
            session.refuse(shared)
            return
        try:
            session.start()
        except RuntimeError:  # the system has no thread for it, or the interpreter ends
            if not leaving.is_ending():
                raise
        else:
            self._sessions = (*self._sessions, session)

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        leaving = [one for one in self._sessions if one.subscription is subscription]
        self._sessions = tuple(one for one in self._sessions if one not in leaving)
        for session in leaving:
            session.end()
