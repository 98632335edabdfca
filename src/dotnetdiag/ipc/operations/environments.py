"""A runtime's environment: read it, set a variable, remove one."""

from __future__ import annotations

from dotnetdiag.errors import DangerousRequest, NotSupported, ServerError
from dotnetdiag.ipc import environment as messages
from dotnetdiag.ipc import process
from dotnetdiag.ipc.exchange import Close, Operation, ask, exchange, receive_exactly


def environment() -> Operation[dict[str, str]]:
    """The runtime's environment, by name."""
    connection, reply = yield from exchange(messages.ProcessEnvironment())
    data = yield from receive_exactly(connection, reply.size_bytes)
    yield Close(connection)
    return messages.EnvironmentBlock.parse(data).variables()


def set_environment_variable(name: str, value: str | None) -> Operation[None]:
    """Set a variable; ``None`` removes it. Removing kills a NativeAOT runtime (§21.1): DangerousRequest, nothing is sent.

    NativeAOT is told by its answer to an ApplyStartupHook without a path: it has no such feature, while CoreCLR 8 and newer
    refuse the argument (§21.2) and older ones do not know the command. None of them acts on it.
    """
    request = messages.SetEnvironmentVariable(name=name, value=value)
    request.check()
    if value is None:
        try:
            yield from ask(process.StartupHookProbe())
        except NotSupported:
            raise DangerousRequest(
                request.COMMAND.name, "removing a variable kills a NativeAOT runtime; set it to an empty text instead"
            ) from None
        except ServerError:
            pass  # the refusal that tells CoreCLR
    yield from ask(request)
