"""Every error this package raises on purpose, in one tree.

::

    DiagnosticsError
    ├── UsageError (ValueError)            you asked wrongly; nothing was sent
    │   ├── GrammarError                   a text that does not parse: text, position
    │   ├── UnknownName (KeyError)         a name that is not there: name, near
    │   ├── WrongCombination               things that do not go together: lacking
    │   ├── InsecureAddress                beyond this machine without TLS and a token: address
    │   └── RequestRefused                 a request we do not send: command, reason
    │       ├── DangerousRequest           it would kill or corrupt the target
    │       └── NotPossible                this platform or runtime has no such thing
    ├── MalformedError (ValueError)        bytes that are not what they claim: offset, where
    │   ├── ProtocolError                  a peer broke the Diagnostic IPC protocol
    │   └── FormatError                    a trace file or stream is broken
    │       └── NotUnderstood              parts of it that were not understood would be passed over
    ├── ServerError                        the runtime said no: command, hresult, text
    │   ├── UnsupportedCommand             it does not know the command
    │   │   └── RuntimeTooOld              what was asked needs a newer one: feature, needs, has
    │   ├── BadEncoding                    it could not read the request
    │   ├── NotSupported                   the feature is not in this runtime
    │   └── ProfilerAlreadyActive
    ├── TransportError (ConnectionError)   bytes could not travel: address
    │   ├── ConnectFailed
    │   ├── ConnectionEnded (EOFError)     the peer closed too early
    │   └── TimedOut (TimeoutError)        after timeout_s
    ├── TargetError (LookupError)          the process to talk to could not be found: pid
    │   ├── ProcessNotFound
    │   ├── AmbiguousName
    │   ├── TargetStopped                  a signal has stopped it
    │   └── NoDiagnostics                  it runs, but offers no diagnostic endpoint
    ├── InputError (OSError)               a file could not be read: path
    ├── OutputError (OSError)              a result could not be written: path
    │   └── OutputExists (FileExistsError) something is there already, and was not to be overwritten
    ├── MissingDependency (ImportError)    an optional library is not installed: extra
    └── Cancelled                          its caller has cancelled it
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "AmbiguousName",
    "BadEncoding",
    "Cancelled",
    "ConnectFailed",
    "ConnectionEnded",
    "DangerousRequest",
    "DiagnosticsError",
    "FormatError",
    "GrammarError",
    "InputError",
    "InsecureAddress",
    "MalformedError",
    "MissingDependency",
    "NoDiagnostics",
    "NotPossible",
    "NotSupported",
    "NotUnderstood",
    "OutputError",
    "OutputExists",
    "ProcessNotFound",
    "ProfilerAlreadyActive",
    "ProtocolError",
    "RequestRefused",
    "RuntimeTooOld",
    "ServerError",
    "TargetError",
    "TargetStopped",
    "TimedOut",
    "TransportError",
    "UnknownName",
    "UnsupportedCommand",
    "UsageError",
    "WrongCombination",
]


# What the builtin bases keep outside of ``__dict__`` (OSError, ImportError).
_BUILTIN_STATE = ("errno", "strerror", "filename", "filename2", "msg", "name", "path")


class DiagnosticsError(Exception):
    """Root of all errors of this package. ``str()`` is one line, made of the attributes when the error is made.

    Errors can be pickled and copied: type, message, attributes and notes are kept. Cause and traceback are not, as with every exception.
    """

    def __str__(self) -> str:
        """The message as it is: without the quotes of KeyError, the ``[Errno …]`` of OSError."""
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Not by calling ``__init__`` again, as builtin exceptions do: its arguments are not ``args``."""
        state = dict(vars(self))
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        for name in _BUILTIN_STATE:
            value = getattr(self, name, None)
            if value is not None:
                state[name] = value
        return _without_init, (type(self), self.args), state


def _without_init(kind: type[DiagnosticsError], args: tuple[object, ...]) -> DiagnosticsError:
    error = kind.__new__(kind)
    error.args = args
    return error


class UsageError(DiagnosticsError, ValueError):
    """The caller asked for something that makes no sense. Nothing was sent."""


class GrammarError(UsageError):
    """A text (provider list, port, duration, filter) does not parse.

    ``position`` is the 0-based index into ``text`` of the character that is wrong.
    """

    def __init__(self, what: str, text: str, position: int, problem: str) -> None:
        self.what, self.text, self.position, self.problem = what, text, position, problem
        start = max(0, position - 30)
        shown = ("…" if start else "") + text[start : position + 30] + ("…" if position + 30 < len(text) else "")
        super().__init__(f"{what}: {problem} at character {position + 1} of {shown!r}")


class WrongCombination(UsageError):
    """Things that do not go together, or one without that which it is for: the parameter ``lacking`` (``""``: none is)."""

    def __init__(self, problem: str, *, lacking: str = "") -> None:
        self.problem, self.lacking = problem, lacking
        super().__init__(problem)


class InsecureAddress(UsageError):
    """TCP beyond loopback without authentication: who can talk to a runtime may run code in it."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"{address} is beyond loopback: only with TLS (certificate, key, CA) and a token, for whoever can connect may run code in the target"
        )


class UnknownName(UsageError, KeyError):
    """A name that is not there (an event, a provider, a field). ``near`` lists the names that are alike."""

    def __init__(self, what: str, name: str, near: tuple[str, ...] = (), *, where: str = "in the trace") -> None:
        self.what, self.name, self.near, self.where = what, name, near, where
        super().__init__(f"no {what} {name!r} {where}" + (f"; near: {', '.join(near)}" if near else ""))


NEAR_LIMIT = 6


def near(text: str, known: Iterable[str], *, limit: int = NEAR_LIMIT) -> tuple[str, ...]:
    """Names that are alike: those that contain the text or its last part first, then those spelled alike, then those whose last part is."""
    wanted = text.strip().lower()
    by_lower = {name.lower(): name for name in sorted(known)}
    last = wanted.rpartition("/")[2]
    inside = [name for name in by_lower if len(wanted) > 2 and (wanted in name or (len(last) > 2 and last in name))]
    import difflib  # only to help with a wrong name

    alike = difflib.get_close_matches(wanted, by_lower, n=limit, cutoff=0.6)
    by_end: dict[str, list[str]] = {}
    for name in by_lower:
        by_end.setdefault(name.rpartition(".")[2].rpartition("/")[2], []).append(name)
    ends = difflib.get_close_matches(wanted.rpartition(".")[2].rpartition("/")[2], by_end, n=limit, cutoff=0.75)
    found = dict.fromkeys([*inside, *alike, *(name for one in ends for name in by_end[one])])
    return tuple(by_lower[name] for name in found)[:limit]


class RequestRefused(UsageError):
    """A request that this package does not send. The target was not touched."""

    def __init__(self, command: str, reason: str) -> None:
        self.command, self.reason = command, reason
        super().__init__(f"{command}: {reason}")


class DangerousRequest(RequestRefused):
    """The request is known to kill or corrupt runtimes (measured, ipc-protocol.md §21.1)."""


class NotPossible(RequestRefused):
    """This platform, or this runtime, has no such thing. Nothing is wrong with the request itself."""


class MalformedError(DiagnosticsError, ValueError):
    """Bytes are not what they claim to be. ``offset`` is absolute; ``where`` names the message or block."""

    def __init__(self, problem: str, *, offset: int | None = None, where: str = "") -> None:
        self.problem, self.offset, self.where = problem, offset, where
        place = where + (f" at 0x{offset:x}" if offset is not None else "")
        super().__init__(f"{place}: {problem}" if place else problem)


class ProtocolError(MalformedError):
    """A peer sent something that the Diagnostic IPC protocol does not allow."""


class FormatError(MalformedError):
    """A trace is broken at ``offset`` (from the first byte of the file or stream)."""


class NotUnderstood(FormatError):
    """A part of the trace, from ``offset`` on, was not understood, and may not be passed over. Nothing was written."""


class ServerError(DiagnosticsError):
    """The runtime answered with an error.

    ``hresult`` is unsigned 32 bits; ``name`` is its name when known; ``text`` is what the runtime added
    (dump 3 only, otherwise empty).
    """

    def __init__(self, command: str, hresult: int, *, name: str = "", advice: str = "", text: str = "") -> None:
        self.command, self.hresult, self.name, self.advice, self.text = command, hresult, name, advice, text
        label = f"0x{hresult:08X}" + (f" {name}" if name else "")
        tail = "; ".join(part.strip() for part in (text, advice) if part.strip())
        super().__init__(f"{command}: the runtime answered {label}" + (f": {tail}" if tail else ""))


class UnsupportedCommand(ServerError):
    """The runtime does not know the command (0x80131385). Drives the fall-backs to older commands."""


class RuntimeTooOld(UnsupportedCommand):
    """What was asked needs a newer runtime: ``feature`` needs ``needs``; it ``has`` this version (None: it does not say)."""

    def __init__(self, command: str, feature: str, *, needs: str, has: str | None = None) -> None:
        self.feature, self.needs, self.has = feature, needs, has
        seen = f"this one is {has}" if has else "this one does not even tell its version"
        super().__init__(command, 0x80131385, name="UNKNOWN_COMMAND", text=f"{feature} needs {needs} or newer; {seen}")


class BadEncoding(ServerError):
    """The runtime could not read the request (0x80131384)."""


class NotSupported(ServerError):
    """The feature is compiled out of this runtime (0x80131515)."""


class ProfilerAlreadyActive(ServerError):
    """Another profiler is attached (0x8013136A)."""


class TransportError(DiagnosticsError, ConnectionError):
    """Bytes could not travel. ``address`` is the text of the address, where there is one."""

    def __init__(self, problem: str, *, address: str = "") -> None:
        self.problem, self.address = problem, address
        super().__init__(f"{address}: {problem}" if address else problem)


class ConnectFailed(TransportError):
    """No connection could be made. ``errno`` says why when the system said it."""

    def __init__(self, problem: str, *, address: str = "", errno: int | None = None) -> None:
        super().__init__(problem, address=address)
        self.errno = errno


class ConnectionEnded(TransportError, EOFError):
    """The peer closed the connection before everything had arrived."""


class TimedOut(TransportError, TimeoutError):
    """Nothing (or not enough) happened within ``timeout_s`` seconds."""

    def __init__(self, problem: str, *, address: str = "", timeout_s: float | None = None) -> None:
        limit = f" within {timeout_s:g} s" if timeout_s is not None else ""
        super().__init__(problem + limit, address=address)
        self.timeout_s = timeout_s


class TargetError(DiagnosticsError, LookupError):
    """The process to talk to could not be found. ``pid`` may be None; ``code`` is that of the finding that says why, or empty."""

    def __init__(self, problem: str, *, pid: int | None = None, code: str = "") -> None:
        self.problem, self.pid, self.code = problem, pid, code
        super().__init__(problem)


class ProcessNotFound(TargetError):
    """There is no such process (or no process of that name). ``ended_with``: of a program that was started and has ended without a runtime,
    its exit code as a shell has it.
    """

    def __init__(self, problem: str, *, pid: int | None = None, code: str = "", ended_with: int | None = None) -> None:
        self.ended_with = ended_with
        super().__init__(problem, pid=pid, code=code)


class AmbiguousName(TargetError):
    """Several processes have the name. ``pids`` lists them."""

    def __init__(self, problem: str, *, pids: tuple[int, ...] = (), code: str = "") -> None:
        super().__init__(problem, code=code)
        self.pids = pids


class TargetStopped(TargetError):
    """A signal (SIGSTOP, Ctrl-Z) has stopped the process: it answers nothing until it is continued."""


class NoDiagnostics(TargetError):
    """The process runs but no diagnostic endpoint of it could be found or reached."""


class InputError(DiagnosticsError, OSError):
    """A file could not be read. ``path`` is the ``filename`` of OSError too."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem, self.filename = path, problem, path  # after OSError, which clears the last


class OutputError(DiagnosticsError, OSError):
    """A result could not be written. What had arrived before is in the file, if one could be made."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem, self.filename = path, problem, path


class OutputExists(OutputError, FileExistsError):
    """A file of that name is there. Nothing was written. A note says what overwrites it."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "there is a file of this name already")
        self.add_note("force=True overwrites it")


class MissingDependency(DiagnosticsError, ImportError):
    """An optional library is needed. ``extra`` is the extra of this package that brings it."""

    def __init__(self, library: str, *, extra: str, purpose: str) -> None:
        self.library, self.extra, self.purpose = library, extra, purpose
        super().__init__(f"{purpose} needs {library}: pip install 'dotnetdiag[{extra}]'", name=library)


class Cancelled(DiagnosticsError):
    """What was under way has been cancelled by its caller, as by ``Stop.cancel``."""

    def __init__(self) -> None:
        super().__init__("cancelled")
