"""Record a trace of one process into a file."""

from __future__ import annotations

from pathlib import Path

from dotnetdiag._dataclasses import replace
from dotnetdiag.durations import seconds_of
from dotnetdiag.providers.composition import Composition, ProviderSource
from dotnetdiag.providers.names import misspelled
from dotnetdiag.recipes.collect_options import Collected, CollectOptions, Observer
from dotnetdiag.recipes.keeping import Keeping, StopCause
from dotnetdiag.recipes.recording import Recording, new_path
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import connected

__all__ = [
    "CollectOptions",
    "Collected",
    "Composition",
    "Keeping",
    "Observer",
    "ProviderSource",
    "Stop",
    "StopCause",
    "collect",
    "convert_recording",
    "misspelled",
]


def collect(options: CollectOptions, observer: Observer | None = None, stop: Stop | None = None) -> Collected:
    """Start a session, save it for the duration or until it is stopped, drain it. The file holds all that arrived, in any case.

    Raises Cancelled after ``stop.cancel()``, and after ``stop.stop()`` when no runtime has come yet.
    """
    observer, stop = observer or Observer(), stop or Stop()
    composed = options.composed()  # mistakes are told before anything is started or waited for
    seconds_of(options.duration)
    target, launch = options.target, options.launch
    label = launch.label if launch is not None else target.label() if target is not None else ""
    options.check_outputs(options.output or new_path(label))
    if launch is not None:
        from dotnetdiag.recipes.launch import end_of, launched, shell_code, told_of_heirs

        with launched(launch, check=stop.check_wait) as child:
            if (
                launch.stop_on_exit and child.client.target_pid() != child.pid
            ):  # its own runtime ends the session itself
                child.on_exit(stop.stop)
            done = Recording(
                options, composed, child.client, label, observer=observer, stop=stop, over=child.address
            ).run()
            end = end_of(
                child,
                ended_by_us=done.was_stopped,
                signal_for_it=lambda: observer.child_signal,
                is_cancelled=lambda: stop.is_cancelled,
            )
        code, name = shell_code(end.code)
        notes = (*done.notes, *end.notes, *told_of_heirs(child.heirs))
        return replace(done, child_exit_code=code, child_signal=name, notes=notes)
    assert target is not None, "a target or a program"
    resumes = options.resume
    with connected(target, waiting=observer.waiting, check=stop.check_wait, resumes=resumes) as client:
        over = target.address if target.port else None
        return Recording(options, composed, client, label, observer=observer, stop=stop, over=over).run()


def convert_recording(done: Collected, options: CollectOptions) -> list[Path]:
    """Write the recording in ``options.formats``, beside it. The files."""
    if not options.formats:
        return []
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file

    wanted = ConvertOptions(force=options.force)
    return [made.path for file in done.files for made in convert_file(file.path, options.formats, options=wanted)]
