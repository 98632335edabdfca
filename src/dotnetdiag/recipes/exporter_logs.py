"""What OpenTelemetry's exporters log while they send: for us to read, and not for the terminal."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Self

_ROOT = "opentelemetry"


class ExporterLogs(logging.Handler):
    """While it is open nothing of the library's loggers goes elsewhere. ``heard`` is called with each record, in the thread that logs.

    Within a ``with`` block it stays open, also when it is closed meanwhile: what is cancelled says so.
    """

    def __init__(self, heard: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard
        self._changing = threading.Lock()
        self._inside = 0
        self._is_closed = False
        self._logger = logging.getLogger(_ROOT)
        self._logger.addHandler(self)
        self._logger.propagate = False

    def __enter__(self) -> Self:
        with self._changing:
            self._inside += 1
        return self

    def __exit__(self, *_: object) -> None:
        with self._changing:
            self._inside -= 1
        if self._is_closed:
            self.close()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record on."""
        self._heard(record)

    def close(self) -> None:
        """From here on everything is as before."""
        with self._changing:
            self._is_closed = True
            if self._inside:
                return
            self._logger.removeHandler(self)
            if not any(isinstance(one, ExporterLogs) for one in self._logger.handlers):
                self._logger.propagate = True
        super().close()
