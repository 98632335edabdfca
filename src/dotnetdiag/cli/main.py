"""Entry point of ``dotnetdiag``: the one place where errors become a line on stderr and an exit code.

Measured, of the 75 ms that ``ps`` once took (dotnet-trace: 90): click takes 20, and is not needed for its plain forms, which scripts call
often; taking the interpreter down in order takes 9, and every verb has closed what it opened by then.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from dotnetdiag.cli.quick_imports import find_quickly
from dotnetdiag.cli.signals import interrupted
from dotnetdiag.cli.standard_streams import lead_stdout_nowhere, prepare
from dotnetdiag.cli.verdict import settled
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.recipes import own_process

WITHOUT_RESULTS = ["run"], ["router"]
"""Verbs that need no standard output."""


def main() -> None:
    """Run the command line of this process."""
    own_process.IS_OURS = True
    find_quickly()
    if not prepare() and sys.argv[1:2] not in WITHOUT_RESULTS:
        print("error: standard output is closed; results go there", file=sys.stderr)
        _leave(2)
    try:
        with interrupted():
            code = _run(sys.argv[1:])
    except KeyboardInterrupt as error:
        code = _report("cancelled", error)
    except DiagnosticsError as error:
        code = _report(str(error), error)
    except BrokenPipeError:  # `dotnetdiag … | head`
        lead_stdout_nowhere()
        code = settled()
    except OSError as error:
        code = _report(f"{error.filename}: {error.strerror}" if error.filename else str(error), error)
    except Exception as error:
        code = _report_bug(error)
    _leave(code)


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
    from dotnetdiag.cli.plain_forms import run_plain

    code = run_plain(words)
    if code is not None:
        return code
    from dotnetdiag.cli.lean import lean_click

    with lean_click():
        from dotnetdiag.cli.commands import run

    return run()


if __name__ == "__main__":
    main()
