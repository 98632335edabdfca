"""Error codes: a name, a sentence and a class for each; words of no face."""

from __future__ import annotations

import re

import pytest

from dotnetdiag import errors
from dotnetdiag.cli.commands import COMMANDS
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import ADVICE, HResult, hresult_name, server_error
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.replies import ResultReply


@pytest.mark.parametrize("code", HResult, ids=lambda code: code.name)
def test_every_code_has_a_sentence(code: HResult) -> None:
    sentence = ADVICE[code]
    assert len(sentence) > 20
    assert "\n" not in sentence
    assert not sentence.endswith(".")  # it stands inside of a line
    error = server_error("ProcessInfo", code)
    assert str(error) == f"ProcessInfo: the runtime answered 0x{code:08X} {code.name}: {sentence}"
    assert (error.hresult, error.name, error.advice) == (code, code.name, sentence)


def test_codes_have_the_values_of_the_document() -> None:
    """ipc-protocol.md §6, and those measured in §5.7 and §21."""
    assert {code.name: f"{code:08X}" for code in HResult} == {
        "BAD_ENCODING": "80131384",
        "UNKNOWN_COMMAND": "80131385",
        "UNKNOWN_MAGIC": "80131386",
        "UNKNOWN_ERROR": "80131387",
        "NOT_SUPPORTED": "80131515",
        "FAIL": "80004005",
        "INVALID_ARGUMENT": "80070057",
        "PROFILER_NOT_YET_AVAILABLE": "8013135B",
        "PROFILER_RUNTIME_UNINITIALIZED": "80131371",
        "PROFILER_ALREADY_ACTIVE": "8013136A",
        "INSUFFICIENT_BUFFER": "8007007A",
        "ENVVAR_NOT_FOUND": "800700CB",
        "MODULE_NOT_FOUND": "8007007E",
        "PROC_NOT_FOUND": "8007007F",
        "CLASS_NOT_AVAILABLE": "80040111",
        "TYPE_LOAD": "80131522",
        "UNSPECIFIED": "FFFFFFFF",
    }


def test_no_sentence_is_for_a_code_without_a_name() -> None:
    assert set(ADVICE) == set(HResult)


@pytest.mark.parametrize("sentence", ADVICE.values())
def test_no_sentence_names_an_option_or_a_verb(sentence: str) -> None:
    verbs = "|".join(map(re.escape, COMMANDS))
    assert not re.search(rf"(?<![-\w])--?[a-z]|dotnetdiag|`(?:{verbs})", sentence)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0x80131384, errors.BadEncoding),
        (0x80131385, errors.UnsupportedCommand),
        (0x80131515, errors.NotSupported),
        (0x8013136A, errors.ProfilerAlreadyActive),
        (0x80004005, errors.ServerError),
        (0x80001234, errors.ServerError),
    ],
)
def test_signed_and_unsigned_codes_are_one(code: int, kind: type[errors.ServerError]) -> None:
    for same in (code, code - (1 << 32)):
        error = server_error("AttachProfiler", same, text="said so")
        assert type(error) is kind
        assert error.hresult == code
        assert hresult_name(same) == error.name
        assert f"0x{code:08X}" in str(error)
        assert "said so" in str(error)


def test_unknown_code_is_shown_in_hex_alone() -> None:
    assert hresult_name(0x80001234) == ""
    assert str(server_error("ResumeRuntime", 0x80001234)) == "ResumeRuntime: the runtime answered 0x80001234"


def answered(hresult: int) -> ResultReply:
    return ResumeRuntime().read_reply(Frame.parse(ResultReply(hresult=hresult).pack()))


@pytest.mark.parametrize("code", [0x00000000, 0x00000001, 0x00000002, 0x00131106, 0x7FFFFFFF])
def test_success_codes_are_no_failures(code: int) -> None:
    """S_OK, S_FALSE and the others whose highest bit is not set."""
    assert answered(code).hresult == code


@pytest.mark.parametrize("code", [0x80000000, 0x80004005, 0xFFFFFFFF])
def test_codes_with_the_highest_bit_are_failures(code: int) -> None:
    with pytest.raises(errors.ServerError) as caught:
        answered(code)
    assert (caught.value.hresult, caught.value.command, caught.value.text) == (code, "ResumeRuntime", "")
