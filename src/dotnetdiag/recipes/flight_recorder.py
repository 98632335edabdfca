"""A flight recorder in a program: ``dd.FlightRecorder``."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.providers.composition import compose
from dotnetdiag.recipes.kept_files import END_S, KeptFile, receive
from dotnetdiag.recipes.ring_files import DEFAULT_RING_BYTES, DumpTrigger, RingFiles, window_s_of
from dotnetdiag.recipes.rundown import Rundown
from dotnetdiag.recipes.sizes import size_bytes_of
from dotnetdiag.recipes.slow_start import START_TIMEOUT_S
from dotnetdiag.recipes.suspension import is_held, resume
from dotnetdiag.recipes.target import connected
from dotnetdiag.recipes.verbs import target_of

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession
    from dotnetdiag.recipes.sources import PathText
    from dotnetdiag.recipes.verbs import Runtime


class FlightRecorder:
    """A session that keeps the last ``window`` in memory, and writes it when :meth:`dump` is called, as often as that is::

        with dd.FlightRecorder("MyApp", preset="gc-verbose", window="60s") as recorder:
            ...
            recorder.dump("slow.nettrace")

    The session runs from the ``with`` on, until its end or until the runtime's; a thread receives it.
    """

    def __init__(
        self,
        runtime: Runtime,
        providers: str | None = None,
        *,
        preset: str | None = None,
        window: float | str = "60s",
        size_bytes: int | str = DEFAULT_RING_BYTES,
        buffer_mb: int = 256,
        rundown: bool | None = None,
        stacks: bool = True,
    ) -> None:
        """``runtime``, ``providers``, ``preset``, ``buffer_mb``, ``rundown`` and ``stacks`` are those of ``dd.collect``. ``size_bytes`` (``"256MB"``)
        are held at most: of a session that writes more in the ``window``, less than that is kept. Raises UsageError, GrammarError.
        """
        self._target = target_of(runtime)
        self._chosen = compose(providers=providers, presets=preset, rundown=rundown)
        self._window_s = window_s_of(window)
        self._size_bytes = size_bytes_of(size_bytes, "ring size")
        self._buffer_mb, self._stacks = buffer_mb, stacks
        self._opened = ExitStack()
        self._session: TraceSession | None = None
        self._ring: RingFiles | None = None
        self._trigger = DumpTrigger()
        self._thread: threading.Thread | None = None
        self.problem: DiagnosticsError | None = None
        """What has ended the session before its time; None while it runs well."""

    def __enter__(self) -> Self:
        """Start the session. Raises what ``Client.trace`` raises."""
        if self._session is not None:
            raise UsageError("a flight recorder records once: make another")
        chosen = self._chosen
        with ExitStack() as opened:
            client = opened.enter_context(connected(self._target))
            self._session = opened.enter_context(
                client.trace(
                    chosen.providers,
                    buffer_mb=self._buffer_mb,
                    rundown_keyword=0,
                    stackwalk=self._stacks,
                    answer_timeout_s=START_TIMEOUT_S,
                )
            )
            if self._target.port is not None and is_held(client) is not False:
                resume(client, over=self._target.address)
            rundown = Rundown(client, keyword=chosen.rundown_keyword, fallback=chosen.rundown_fallback)
            self._ring = RingFiles(
                None,
                window_s=self._window_s,
                size_bytes=self._size_bytes,
                rundown=rundown,
                trigger=self._trigger,
                dump_at_end=False,
                is_cancelled=lambda: True,  # who leaves the with block has all the dumps that he wants
            )
            self._thread = threading.Thread(target=self._receive, name="dotnetdiag recorder", daemon=True)
            self._thread.start()
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def held_s(self) -> float:
        """How far back a dump would go."""
        return 0.0 if self._ring is None else self._ring.held_s

    @property
    def held_bytes(self) -> int:
        """What is held in memory."""
        return 0 if self._ring is None else self._ring.held_bytes

    @property
    def is_running(self) -> bool:
        """Whether the session still runs: not after the runtime's exit."""
        return self._thread is not None and self._thread.is_alive()

    def dump(self, path: PathText, *, force: bool = False, timeout_s: float = END_S) -> KeptFile:
        """Write the last ``window`` before now into a file, with names of methods, while the session goes on. What is there is overwritten with
        ``force`` only. May be called from any thread, also after the runtime's exit: then ``problem`` says what is missing.

        Raises OutputError, OutputExists, TimedOut (the dump goes on), UsageError where nothing is recorded.
        """
        if self._ring is None or self._session is None:
            raise UsageError("a flight recorder dumps what it holds within its with block")
        return self._trigger.dump(Path(path), force=force, timeout_s=timeout_s)

    def close(self) -> None:
        """End the session and let go of what is held. May be called again."""
        if self._ring is None:
            return
        ring, self._ring = self._ring, None
        if self._session is not None:
            self._session.stop()
            self._session.abort()  # what it still has is not wanted
        if self._thread is not None:
            self._thread.join(END_S)
        ring.close()
        self._opened.close()

    def _receive(self) -> None:
        assert self._session is not None
        assert self._ring is not None
        try:
            receive(
                self._session,
                self._ring,
                duration_s=None,
                tee=lambda _: None,
                report=lambda _: None,
                clock=time.monotonic,
            )
        except DiagnosticsError as error:
            self.problem = error
