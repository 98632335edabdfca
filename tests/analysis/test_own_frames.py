"""Which method of a stack a row is named by: the program's, else the first that is more than the runtime's machinery."""

from __future__ import annotations

import struct

import pytest
from tests.analysis.traces import Seen, managed, traced
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.stacked import own_frames
from dotnetdiag.analysis.waits import CONTENDED, contention

CORE = (
    "System.Buffers.Pool",
    "System.Runtime.CompilerServices.TaskAwaiter",
    "System.Runtime.EH",
    "System.Runtime.ExceptionServices.ExceptionDispatchInfo",
    "System.Threading.ExecutionContext",
    "System.Threading.Lock",
    "System.Threading.LowLevelLifoSemaphore",
    "System.Threading.ManualResetEventSlim",
    "System.Threading.Monitor",
    "System.Threading.PortableThreadPool+WorkerThread",
    "System.Threading.SemaphoreSlim",
    "System.Threading.Tasks.Task",
    "System.Threading.Thread",
    "System.Threading.WaitHandle",
    "System.ThrowHelper",
)
MODULES = {
    **dict.fromkeys(CORE, "/x/System.Private.CoreLib.dll"),
    "System.Net.Http.Pool": "/x/System.Net.Http.dll",
    "System.Net.ThrowHelper": "/x/System.Net.Http.dll",
    "dynamicClass": "",
}
MONITOR = ("System.Threading.Monitor.Enter_Slowpath", "System.Threading.Monitor.Enter")
RETHROWN = ("System.Runtime.EH.DispatchEx", "System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw")
START = ("System.Threading.PortableThreadPool+WorkerThread.WorkerThreadStart", "System.Threading.Thread.StartCallback")
SEND = "System.Net.Http.Pool.Send"


def own(*stack: str) -> str:
    profile = cpu(traced(managed(0, 1, *stack), managed(1, 1), modules=MODULES))
    (frame,) = own_frames(profile).tolist()
    return str(profile.frames.name(frame)).partition("!")[2].removesuffix("()")


@pytest.mark.parametrize(
    "stack",
    [
        MONITOR,
        ("System.Threading.Monitor.Wait", "System.Threading.ManualResetEventSlim.Wait"),
        ("System.Threading.Monitor.ReliableEnter",),
        ("System.Threading.WaitHandle.WaitOneNoCheck", "System.Threading.WaitHandle.WaitOne"),
        ("System.Threading.WaitHandle.WaitMultiple", "System.Threading.WaitHandle.WaitAny"),
        ("System.Threading.SemaphoreSlim.WaitUntilCountOrTimeout", "System.Threading.SemaphoreSlim.Wait"),
        ("System.Threading.Lock.EnterSlow", "System.Threading.Lock.EnterAndGetCurrentThreadId"),
        ("System.Threading.Thread.Join",),
        ("System.Threading.Thread.SleepInternal", "System.Threading.Thread.Sleep"),
        ("System.Threading.Tasks.Task.SpinThenBlockingWait", "System.Threading.Tasks.Task.InternalWait"),
        ("System.Threading.Tasks.Task.InternalWaitCore", "System.Runtime.CompilerServices.TaskAwaiter.GetResult"),
        RETHROWN,
        (*RETHROWN, "System.Runtime.CompilerServices.TaskAwaiter.ThrowForNonSuccess"),
        ("System.Runtime.EH.DispatchEx", "System.ThrowHelper.ThrowArgumentNullException"),
        ("System.Net.ThrowHelper.Throw",),
        (*MONITOR, "dynamicClass.lambda_method5"),
    ],
)
def test_who_calls_the_runtimes_machinery_is_named_and_not_a_part_of_that(stack: tuple[str, ...]) -> None:
    assert own(*stack, SEND, *START) == SEND
    assert own(*stack, SEND, "App.Main", *START) == "App.Main"


@pytest.mark.parametrize(
    ("stack", "method"),
    [
        (("System.Threading.LowLevelLifoSemaphore.WaitForSignal", *START), START[0]),  # a worker without work
        (
            (*RETHROWN, "System.Threading.ExecutionContext.Run", "System.Threading.Tasks.Task.Execute", *START),
            "System.Threading.ExecutionContext.Run",
        ),
        (("System.Buffers.Pool.Rent", *START), "System.Buffers.Pool.Rent"),
        (MONITOR, MONITOR[0]),  # nothing else is there
        (("dynamicClass.lambda_method5", *START), "dynamicClass.lambda_method5"),
        (("dynamicClass.lambda_method5", SEND, *START), SEND),
        (("App.ThrowIt", "App.Main"), "App.ThrowIt"),  # the program may call its methods what it likes
    ],
)
def test_where_all_is_machinery_the_least_general_of_it_is_named(stack: tuple[str, ...], method: str) -> None:
    assert own(*stack) == method


def test_a_sample_without_a_stack_has_no_frame() -> None:
    assert own_frames(cpu(traced(managed(0, 1), managed(1, 1)))).tolist() == [-1]


def test_locks_and_exceptions_are_told_by_who_wants_and_who_throws() -> None:
    wants = Seen(
        ms=1, thread=1, stack=(*MONITOR, SEND), provider=RUNTIME, number=CONTENDED, payload=struct.pack("<BHQQQ", 0, 1, 1, 2, 3), version=2
    )  # fmt: skip
    assert contention(traced(wants, modules=MODULES)).by_method.values("method") == [f"System.Net.Http!{SEND}()"]
    payload = z16("Lost") + z16("") + bytes(8) + bytes(4) + bytes(2) + bytes(2)
    throws = Seen(ms=1, thread=1, stack=(*RETHROWN, SEND), provider=RUNTIME, number=80, payload=payload, version=1)
    assert exceptions(traced(throws, modules=MODULES)).by_method.values("method") == [f"System.Net.Http!{SEND}()"]
