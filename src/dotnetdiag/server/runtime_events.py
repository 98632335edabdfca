"""``Microsoft-Windows-DotNETRuntime``: collections, threads and exceptions of Python as the events that .NET has for them.

======================  ==========================================================================================================
what happens            events
======================  ==========================================================================================================
a session begins        RuntimeInformation: which Python this is
a collection            SuspendEE, GCStart (depth is the generation), GCEnd, GCHeapStats (all zero: Python does not know how large
                        its generations are, and TraceEvent takes no collection without it for complete), RestartEE;
                        ``PythonCollection`` (GCDynamicEvent): two i64, the objects that were collected, and those that could not be
a thread                ThreadCreated, ThreadTerminated: threads of :mod:`threading` only
an exception is raised  ExceptionThrown, with its stack; from Python 3.12 on, and once for each, where it is raised first
======================  ==========================================================================================================

While no session asks for one of them, nothing is hooked. Python does not say that a thread waited for a lock: there are no Contention
events.
"""

from __future__ import annotations

import functools
import gc
import struct
import sys
import threading
from contextlib import suppress
from types import CodeType
from typing import Any

from dotnetdiag.server.channels import Channels
from dotnetdiag.server.code_addresses import CODE_ADDRESSES
from dotnetdiag.server.event_fields import z16
from dotnetdiag.server.kernels import KERNELS
from dotnetdiag.server.native_events import CLR_INSTANCE, native_event
from dotnetdiag.server.runtime_rundown import (
    DOMAIN_ID,
    RUNTIME_INFORMATION,
    THREAD_KEYWORDS,
    runtime_information,
    thread_facts,
)
from dotnetdiag.server.signal_errors import is_of_signal
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.thread_names import is_called_by_own, is_own
from dotnetdiag.server.value_text import text_of

PROVIDER = "Microsoft-Windows-DotNETRuntime"
GC_KEYWORD, THREADING_KEYWORD, EXCEPTION_KEYWORD = 0x1, THREAD_KEYWORDS, 0x2_0000_8000
_GC_START = native_event(PROVIDER, 1, version=2, keywords=GC_KEYWORD)
_GC_END = native_event(PROVIDER, 2, version=1, keywords=GC_KEYWORD)
_RESTART_END = native_event(PROVIDER, 3, version=1, keywords=GC_KEYWORD)
_HEAP_STATS = native_event(PROVIDER, 4, version=1, keywords=GC_KEYWORD)
_RESTART_BEGIN = native_event(PROVIDER, 7, version=1, keywords=GC_KEYWORD)
_SUSPEND_END = native_event(PROVIDER, 8, version=1, keywords=GC_KEYWORD)
_SUSPEND_BEGIN = native_event(PROVIDER, 9, version=1, keywords=GC_KEYWORD)
_GC_DYNAMIC = native_event(PROVIDER, 39, version=0, keywords=GC_KEYWORD)
_EXCEPTION = native_event(PROVIDER, 80, version=1, level=2, keywords=EXCEPTION_KEYWORD)
_THREAD_CREATED = native_event(PROVIDER, 85, version=0, keywords=THREADING_KEYWORD)
_THREAD_TERMINATED = native_event(PROVIDER, 86, version=0, keywords=THREADING_KEYWORD)
_INFORMATION = native_event(PROVIDER, RUNTIME_INFORMATION, version=0)
_COLLECTIONS = (
    _GC_START,
    _GC_END,
    _HEAP_STATS,
    _RESTART_END,
    _RESTART_BEGIN,
    _SUSPEND_END,
    _SUSPEND_BEGIN,
    _GC_DYNAMIC,
)
_HEAP_STATS_BYTES = 10 * 8 + 3 * 4
_FOR_COLLECTION = 1
"""Why the runtime is suspended."""
_HRESULT = 0x80131500
"""COR_E_EXCEPTION: an exception without a number of its own."""
_HAS_INNER, _COMPLIANT = 1, 16
_TEXT_LIMIT = 4000
_TOOLS = (3, 4, 2)
"""Numbers of tools for sys.monitoring: those that nobody is meant to have, then that of profilers."""
_TOOL_NAME = "dotnetdiag"
_FRAMES_TO_TELL = 30
"""More calls than stand on one another while an exception is written."""
_ARGS: Any = BaseException.args


class RuntimeEvents:
    """The provider. Each kind is hooked while a session wants it. What the program unhooks meanwhile is not told any more, until another
    session asks for it.
    """

    name = PROVIDER

    def __init__(self) -> None:
        self._channels = Channels(*_COLLECTIONS, _THREAD_CREATED, _THREAD_TERMINATED, _EXCEPTION)
        self._collections = 0
        self._collecting: int | None = None
        """The number of the collection whose start was written."""
        # one object, to be found again in gc.callbacks
        self._on_collection = self._collected if KERNELS is None else KERNELS.Undisturbed(self._collected)
        self._skipped = 0
        """Of those that could not be told, how many are counted."""
        self._inner: Any = None
        """What threads run without us, while they run ``_outer``."""
        self._outer: Any = None
        self._tool: int | None = None

    def join(self, subscription: Subscription) -> None:
        """Hook what the session wants, and say who this is."""
        if (write := subscription.channel(_INFORMATION)) is not None:
            write(runtime_information())
        self._channels.add(subscription)
        self._hook()

    def leave(self, subscription: Subscription) -> None:
        """Unhook what nobody wants any more."""
        self._channels.remove(subscription)
        self._hook()

    def _hook(self) -> None:
        wanted = any(map(self._channels.wanted, _COLLECTIONS))
        if wanted != (self._on_collection in gc.callbacks):
            if wanted:
                gc.callbacks.append(self._on_collection)
            else:
                with suppress(ValueError):
                    gc.callbacks.remove(self._on_collection)
        if not wanted:
            self._collecting = None
        wanted = self._channels.wanted(_THREAD_CREATED) or self._channels.wanted(_THREAD_TERMINATED)
        if wanted != (self._inner is not None):
            self._hook_threads() if wanted else self._unhook_threads()
        wanted = self._channels.wanted(_EXCEPTION)
        if wanted != (self._tool is not None):
            self._hook_exceptions() if wanted else self._unhook_exceptions()

    # collections --------------------------------------------------------------------------------------------------

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Where the program's recursion is too deep for it, it is counted, and told the next time."""
        while self._skipped < getattr(self._on_collection, "missed", 0):
            self._skipped += 1
            self._channels.skip(_GC_START)
        write, generation = self._channels.write, info.get("generation", 0)
        if phase == "start":
            number = self._collecting = self._collections = self._collections + 1
            write(_SUSPEND_BEGIN, struct.pack("<II", _FOR_COLLECTION, number) + CLR_INSTANCE)
            write(_SUSPEND_END, CLR_INSTANCE)
            write(_GC_START, struct.pack("<IIII", number, generation, 0, 0) + CLR_INSTANCE + bytes(8))
        elif self._collecting is not None:
            number, self._collecting = self._collecting, None
            counts = struct.pack("<Iqq", 16, info.get("collected", 0), info.get("uncollectable", 0))
            write(_GC_DYNAMIC, z16("PythonCollection") + counts + CLR_INSTANCE)
            write(_GC_END, struct.pack("<II", number, generation) + CLR_INSTANCE)
            write(_HEAP_STATS, bytes(_HEAP_STATS_BYTES) + CLR_INSTANCE)
            write(_RESTART_BEGIN, CLR_INSTANCE)
            write(_RESTART_END, CLR_INSTANCE)

    # threads ------------------------------------------------------------------------------------------------------

    def _hook_threads(self) -> None:
        """What every thread of :mod:`threading` runs first; where it is called otherwise, there are no such events."""
        inner = getattr(threading.Thread, "_bootstrap_inner", None)
        if inner is None:
            return
        channels = self._channels

        @functools.wraps(inner)
        def outer(thread: threading.Thread) -> None:
            # left behind somebody who has hooked it too, or a thread of this package
            if self._outer is not outer or is_own(thread):
                inner(thread)
                return
            number, os_thread = threading.get_ident(), threading.get_native_id()
            with suppress(Exception):  # whoever starts the thread waits until it has begun: in ``inner``
                channels.write(_THREAD_CREATED, thread_facts(number, os_thread))
            try:
                inner(thread)
            finally:
                channels.write(_THREAD_TERMINATED, struct.pack("<QQ", number, DOMAIN_ID) + CLR_INSTANCE)

        self._inner, self._outer = inner, outer
        threading.Thread._bootstrap_inner = outer  # type: ignore[attr-defined]

    def _unhook_threads(self) -> None:
        if getattr(threading.Thread, "_bootstrap_inner", None) is self._outer:
            threading.Thread._bootstrap_inner = self._inner  # type: ignore[attr-defined]
        self._inner = self._outer = None

    # exceptions ---------------------------------------------------------------------------------------------------

    def _hook_exceptions(self) -> None:
        monitoring: Any = getattr(sys, "monitoring", None)
        if monitoring is None:
            return
        tool = next((one for one in _TOOLS if monitoring.get_tool(one) is None), None)
        if tool is None:
            return
        try:
            monitoring.use_tool_id(tool, _TOOL_NAME)
        except ValueError:  # somebody was quicker
            return
        monitoring.register_callback(tool, monitoring.events.RAISE, self._raised)
        monitoring.set_events(tool, monitoring.events.RAISE)
        self._tool = tool

    def _unhook_exceptions(self) -> None:
        monitoring: Any = getattr(sys, "monitoring", None)
        tool, self._tool = self._tool, None
        if (
            tool is not None and monitoring.get_tool(tool) == _TOOL_NAME
        ):  # the program may have freed it, and another taken it
            monitoring.set_events(tool, 0)
            monitoring.register_callback(tool, monitoring.events.RAISE, None)
            monitoring.free_tool_id(tool)

    def _raised(self, _code: CodeType, _offset: int, exception: BaseException) -> None:
        """Called in every frame that it passes. An error here would be one of the program."""
        try:
            try:
                if _is_to_be_told(exception) and not is_called_by_own():
                    self._channels.write(_EXCEPTION, _thrown(exception), CODE_ADDRESSES.stack(1))
            except Exception as error:
                if is_of_signal(error):
                    raise
                self._channels.skip(_EXCEPTION)
        except RecursionError:  # at the limit of recursion nothing can be called, not even what would count it
            pass


def _is_to_be_told(exception: BaseException) -> bool:
    """In the frame where it was raised; of recursion that is too deep, in the first one that has room for telling."""
    traceback = exception.__traceback__
    is_first = traceback is None or traceback.tb_next is None
    if not isinstance(exception, RecursionError):
        return is_first
    return _has_room(_FRAMES_TO_TELL) and (is_first or not _has_room(_FRAMES_TO_TELL + 1))


def _has_room(frames: int) -> bool:
    try:
        _descend(frames)
    except RecursionError:
        return False
    return True


def _descend(frames: int) -> None:
    if frames:
        _descend(frames - 1)


def _thrown(exception: BaseException) -> bytes:
    kind = type(exception)
    flags = _COMPLIANT | (_HAS_INNER if exception.__cause__ is not None else 0)
    name = f"{kind.__module__}.{kind.__qualname__}"
    numbers = struct.pack("<QIH", 0, _HRESULT, flags)
    return z16(name[:_TEXT_LIMIT]) + z16(_message(exception)[:_TEXT_LIMIT]) + numbers + CLR_INSTANCE


def _message(exception: BaseException) -> str:
    """What its arguments say: its own text could run any code, here, where it is raised."""
    arguments = _ARGS.__get__(exception)  # a class may have ``args`` of its own
    return ", ".join(text_of(one) for one in arguments if type(one) in (str, int, float, bool))
