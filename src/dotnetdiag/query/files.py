"""Recordings by path, pattern or URL: here, or wherever fsspec reaches (``s3://``, ``gs://``, ``https://``, ``memory://``).

A recording elsewhere is fetched into a temporary file whenever it is opened, which nobody but this process can read, and which is gone when the
recording is closed: it needs room on the disk of the one who reads it, and no more memory than a file here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import glob, has_magic
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import InputError, MissingDependency, UsageError
from dotnetdiag.trace.trace import Trace

Opener: TypeAlias = Callable[[str, str], Trace]
"""Opens the trace in a file, and names it."""
PathText: TypeAlias = "str | os.PathLike[str]"

_COPIED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class RecordingFile:
    """A recording that is opened when it is read, here or on another machine: it can be pickled where ``opener`` is a function of a module.

    ``name`` is its path or URL; ``options`` are those of the file system that fsspec makes.
    """

    name: str
    opener: Opener
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str | None:
        """Of one that is here."""
        return _local(self.name)

    def require(self) -> None:
        """Raises InputError where it is to be here, and is not."""
        local = self.path
        if local is not None:
            try:
                os.stat(local)
            except (OSError, ValueError) as error:
                raise InputError(self.name, getattr(error, "strerror", None) or str(error)) from error

    def open(self) -> Trace:
        """The trace. Raises InputError, FormatError."""
        local = _local(self.name)
        if local is not None:
            return self.opener(local, local)
        with TemporaryDirectory(prefix="dotnetdiag-") as folder:  # what is open stays readable after its name is gone
            copy = os.path.join(folder, os.path.basename(self.name.rstrip("/")) or "recording")
            _fetch(self.name, copy, self.options)
            return self.opener(copy, self.name)

    def close(self, trace: Trace) -> None:
        """Let go of it."""
        trace.close()


def find_recordings(
    paths: PathText | Iterable[PathText], opener: Opener, options: Mapping[str, Any] | None = None
) -> tuple[RecordingFile, ...]:
    """The files of paths, URLs, and patterns (``*.nettrace``, ``**``) of either; those of a pattern by name, each file once.

    Raises InputError for a pattern that no file has and for a path with a NUL, UsageError for what is no path, and for a file system that is not
    there.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: dict[str, None] = {}
    for one in given:
        if not isinstance(one, str | os.PathLike):
            raise UsageError(f"give paths of files, not a {type(one).__name__}")
        found |= dict.fromkeys(_matching(os.fspath(one), options or {}))
    if not found:
        raise UsageError("no recording: give a path, a pattern, or several")
    return tuple(RecordingFile(name, opener, dict(options or {})) for name in found)


def _matching(path: str, options: Mapping[str, Any]) -> Sequence[str]:
    local = _local(path)
    if local is not None:
        if "\0" in local:
            raise InputError(path, "embedded null byte")  # in the words of `open`; `realpath` raises ValueError
        if not has_magic(local) or os.path.exists(local):
            return [path]
        names = sorted(name for name in glob(local, recursive=True) if os.path.isfile(name))
    elif has_magic(path):
        files, inner = _file_system(path, options)
        try:
            if files.exists(inner):  # it is called so
                return [path]
            spelled, *chain = path.partition("::")  # where one file system lies in another
            # in the words of the pattern: fsspec itself says memory:///a of memory://a
            head = spelled.removesuffix(own) if spelled.endswith(own := inner.lstrip("/")) else None
            found = files.glob(inner)
            names = [files.unstrip_protocol(one) if head is None else head + one.lstrip("/") for one in found]
            names = sorted(name + "".join(chain) for name in names)
        except Exception as error:  # each file system has errors of its own
            raise InputError(path, _said(error)) from error
    else:
        return [path]
    if not names:
        raise InputError(path, "no file has a name like this")
    return names


def _local(path: str) -> str | None:
    """The path of a file here; None for one elsewhere."""
    if path.startswith("file://"):
        from urllib.parse import unquote

        return unquote(path.removeprefix("file://"))
    return None if "://" in path else path


def _file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """What reads a URL, and the path in it. Raises MissingDependency, UsageError."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingDependency("fsspec", extra="dataset", purpose=f"reading {url}") from error
    try:
        files, path = url_to_fs(url, **options)
    except (
        ImportError,
        ValueError,
        TypeError,
    ) as error:  # what it needs is not installed; no such protocol; no such option
        raise UsageError(f"{url}: {_said(error)}") from error
    except OSError as error:  # one in a file that is not there
        raise InputError(url, _said(error)) from error
    return files, path


def _fetch(url: str, copy: str, options: Mapping[str, Any]) -> None:
    files, path = _file_system(url, options)
    try:
        with files.open(path, "rb") as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target, _COPIED_BYTES)
    except Exception as error:  # each file system has errors of its own
        raise InputError(url, _said(error)) from error


def _said(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "No such file or directory"
    return " ".join(str(error).split()) or type(error).__name__
