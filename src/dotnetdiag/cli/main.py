"""Entry point of ``dotnetdiag``: the one place where errors become a line on stderr and an exit code.

Measured, of the 75 ms that ``ps`` once took (dotnet-trace: 90): click takes 20, and is not needed for its plain forms, which scripts call
often; taking the interpreter down in order takes 9, and every verb has closed what it opened by then.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, NoReturn

from dotnetdiag.cli.signals import interrupted
from dotnetdiag.errors import DiagnosticsError


def main() -> None:
    """Run the command line of this process."""
    for name in ("stdin", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us
            # not closed when the object is replaced: the number would then be that of the next socket or file
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
    if sys.stdout is None:
        print("error: standard output is closed; results go there", file=sys.stderr)
        os._exit(2)
    _bear_a_stderr_that_takes_nothing()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # any text can be said in any encoding
    try:
        with interrupted():
            code = _run(sys.argv[1:])
    except KeyboardInterrupt as error:
        code = _report("cancelled", error)
    except DiagnosticsError as error:
        code = _report(str(error), error)
    except BrokenPipeError:  # `dotnetdiag … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = _report(f"{error.filename}: {error.strerror}" if error.filename else str(error), error)
    except Exception as error:
        code = _report_bug(error)
    _leave(code)


def _bear_a_stderr_that_takes_nothing() -> None:
    """Nothing ends otherwise because stderr cannot take a line (its disk is full, its terminal gone): the exit code tells."""

    class Stderr(io.FileIO):
        def write(self, data: Any) -> int:
            try:
                return super().write(data) or len(data)  # None: it does not block, and is full
            except OSError:
                return len(data)

    if os.name == "posix" and isinstance(sys.stderr, io.TextIOWrapper) and sys.stderr.fileno() == 2:
        raw = Stderr(2, "w", closefd=False)
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), sys.stderr.encoding, line_buffering=True)


def _leave(code: int) -> NoReturn:
    """End the process at once. What was to be said is flushed; the rest of the interpreter's end is of no use here."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        pass  # nobody reads any more; or what could not be written was closed with its wrapper, and was told
    except OSError as error:
        code = code or _report(f"stdout: {error.strerror or error}", error)
    sys.stderr.flush()
    os._exit(code)


def _report(text: str, error: BaseException) -> int:
    from dotnetdiag.cli.exits import report

    return report(text, error)


def _report_bug(error: Exception) -> int:
    """What nobody expected, and where: for whoever mends it."""
    place, step = "", error.__traceback__
    while step is not None:
        place, step = f"{os.path.basename(step.tb_frame.f_code.co_filename)}:{step.tb_lineno}", step.tb_next
    text = f"a mistake of dotnetdiag itself, {type(error).__name__}: {error} ({place}); --traceback shows how it came about"
    return _report(text, error)


def _run(words: list[str]) -> int:
    if words in (["ps"], ["ps", "--json"]) and "_DOTNETDIAG_COMPLETE" not in os.environ:
        from dotnetdiag.cli.process_list import processes_as_json, show_processes

        processes_as_json() if len(words) > 1 else show_processes()
        return 0
    from dotnetdiag.cli.commands import run

    return run()


if __name__ == "__main__":
    main()
