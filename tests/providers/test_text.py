"""The grammar of provider texts, in both directions."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints
from dotnetdiag.providers.keywords import CLR_KEYWORDS, KEYWORDS
from dotnetdiag.providers.text import (
    LEVELS,
    format_providers,
    parse_clr_events,
    parse_event_filter,
    parse_level,
    parse_providers,
)

CLR = "Microsoft-Windows-DotNETRuntime"
GUID = "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"


# what is read -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Foo", "Foo:", "Foo::", "Foo:::", " Foo ", "Foo: : :", "\tFoo\n"])
def test_missing_parts_are_those_of_the_reference_tool(text: str) -> None:
    (only,) = parse_providers(text)
    assert (only.name, only.keywords, only.level, only.arguments) == ("Foo", 0, 4, None)


def test_keywords_may_be_names_joined_with_plus() -> None:
    (only,) = parse_providers(f"{CLR}:GC+Exception+0x10000:Verbose")
    assert (only.keywords, only.level) == (0x18001, 5)


@pytest.mark.parametrize(
    ("keywords", "value"),
    [
        ("0", 0),
        ("0x0", 0),
        ("0X1f", 0x1F),
        ("FFFFFFFFFFFFFFFF", (1 << 64) - 1),
        ("0" * 5000 + "1", 1),
        ("1+1", 1),
        (" gc + 0x10 ", 0x11),
        ("GCKeyword+JitKeyword", 0x11),
    ],
)
def test_keywords_in_all_spellings(keywords: str, value: int) -> None:
    assert parse_providers(f"{CLR}:{keywords}")[0].keywords == value


@pytest.mark.parametrize(("provider", "names"), KEYWORDS.items())
def test_every_known_keyword_is_read_in_any_case(provider: str, names: dict[str, int]) -> None:
    for name, value in names.items():
        for spelling in (name, name.upper(), name.title() + "Keyword"):
            assert parse_providers(f"{provider}:{spelling}")[0].keywords == value
    assert all(0 < value < 1 << 64 for value in names.values())


def test_a_keyword_is_one_of_its_own_provider_only() -> None:
    with pytest.raises(GrammarError, match="neither a hex number nor a keyword known for Foo"):
        parse_providers("Foo:GC")
    with pytest.raises(GrammarError, match="'tasks' is no keyword of Microsoft-Windows-DotNETRuntime"):
        parse_providers(f"{CLR}:tasks")
    with pytest.raises(GrammarError, match="did you mean 'exception'"):
        parse_providers(f"{CLR}:exeption")


@pytest.mark.parametrize(
    ("level", "value"),
    [
        *LEVELS.items(),
        ("LogAlways", 0),
        ("VERBOSE", 5),
        ("0", 0),
        ("5", 5),
        ("6", 5),
        ("00000000003", 3),
        ("00000000009", 5),
        ("9" * 5000, 5),
        ("", 4),
        ("  ", 4),
        (" 2 ", 2),
    ],
)
def test_levels_in_all_spellings(level: str, value: int) -> None:
    assert parse_level(level) == value
    assert parse_providers(f"A:1:{level}")[0].level == value


@pytest.mark.parametrize("level", ["-1", "+1", "1.0", "²", "٣", "0x2", "loud", "v" * 5000])
def test_other_levels_are_refused(level: str) -> None:
    with pytest.raises(GrammarError, match=r"^level: .* is no level: 0 to 5, or logalways") as caught:
        parse_level(level)
    assert len(str(caught.value)) < 400
    with pytest.raises(GrammarError, match=r"^providers: "):
        parse_providers(f"A:1:{level}")


def test_comma_and_colon_in_quoted_arguments_do_not_separate() -> None:
    first, second = parse_providers('A:1:4:k="x,y:z";l=2,B:ff')
    assert first.arguments == 'k="x,y:z";l=2'
    assert (second.name, second.keywords) == ("B", 0xFF)


def test_a_quote_after_a_backslash_does_not_end_the_quoted_part() -> None:
    first, second = parse_providers(r'A:1:4:k="x\",y:z",B')
    assert (first.arguments, second.name) == ('k="x",y:z"', "B")
    first, second = parse_providers(r'A:1:4:k="x\\",B')  # the backslash is escaped itself, so this one ends
    assert (first.arguments, second.name) == ('k="x\\"', "B")
    with pytest.raises(GrammarError, match="not closed") as caught:
        parse_providers(r'A:1:4:k="x\",B')
    assert caught.value.position == 8


def test_escapes_are_those_of_the_reference_tool() -> None:
    (only,) = parse_providers(r"A:1:4:a=\r\n\t\\\x41\u00e9\.\;")
    assert only.arguments == "a=\r\n\t\\Aé.;"


@pytest.mark.parametrize(
    ("escape", "problem"),
    [
        ("\\", "unknown escape"),
        ("\\q", "unknown escape"),
        ("\\0", "unknown escape"),
        ("\\u12", "needs 4 hex"),
        ("\\x1", "needs 2 hex"),
        ("\\u12g4", "needs 4 hex"),
    ],
)
def test_other_escapes_are_refused_where_they_stand(escape: str, problem: str) -> None:
    with pytest.raises(GrammarError, match=problem) as caught:
        parse_providers(f"A:1:4:a={escape}")
    assert caught.value.position == 8


@pytest.mark.parametrize("name", [GUID, f"{{{GUID}}}", f"({GUID})", GUID.upper(), GUID.replace("-", "")])
def test_a_guid_is_refused_where_it_stands(name: str) -> None:
    with pytest.raises(GrammarError, match="by name, not by GUID") as caught:
        parse_providers(f"A, {name}:1")
    assert caught.value.position == 3


def test_a_name_that_only_resembles_a_guid_is_a_name() -> None:
    for name in (GUID[:-1], GUID + "0", "g" + GUID[1:]):
        assert parse_providers(name)[0].name == name


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("A,,B", 2),
        ("A,", 2),
        (",A", 0),
        (":1:4", 0),
        (f"{CLR}:GX", 32),
        (f"{CLR}:GC++Jit", 35),
        (f"{CLR}:+GC", 32),
        (f"{CLR}:GC+", 35),
        ("A:0x", 2),
        ("A:1:loud", 4),
        ('A:1:4:k="x', 8),
        ("A:10000000000000000", 2),
        ("A:1+" + "f" * 5000, 4),
    ],
)
def test_error_points_at_the_character(text: str, position: int) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_providers(text)
    assert caught.value.position == position
    assert len(str(caught.value)) < 300


# repeated providers ---------------------------------------------------------------------------------------------------


def test_repeated_provider_is_merged() -> None:
    (only,) = parse_providers("A:1:2,A:4:5")
    assert (only.keywords, only.level) == (5, 5)
    with pytest.raises(UsageError, match="multiple times"):
        parse_providers("A:1:2:a=1,A:1:2:a=2")


@pytest.mark.parametrize("text", ["A:1:0,A:1:5", "A:1:5,A:1:LogAlways", "A:1:2,A:1:0,A:1:4"])
def test_log_always_wins_over_every_other_level(text: str) -> None:
    assert parse_providers(text)[0].level == 0


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_more_verbose_level_wins(level: int) -> None:
    assert parse_providers(f"A:1:{level},A:1:2")[0].level == max(level, 2)


def test_names_that_differ_in_case_are_two_providers() -> None:
    assert [one.name for one in parse_providers("A,a")] == ["A", "a"]


# what is written ------------------------------------------------------------------------------------------------------

NAMES = st.text(string.ascii_letters + string.digits + "-._ é*", min_size=1).map(str.strip).filter(bool)
ARGUMENTS = st.none() | st.text(st.sampled_from('ab=;,:"\\\r\n\t +é\U0001f600\0') | st.characters(), min_size=1)
PROVIDERS: st.SearchStrategy[Provider] = st.builds(
    Provider,
    name=NAMES,
    keywords=st.integers(0, (1 << 64) - 1),
    level=st.integers(0, 5),
    arguments=ARGUMENTS,
).filter(lambda provider: len((provider.name or "").replace("-", "")) != 32)


@given(st.lists(PROVIDERS, min_size=1, max_size=4, unique_by=lambda provider: provider.name))
@example([Provider(name="A", keywords=0, level=0, arguments='"')])
@example([Provider(name="A", keywords=0, level=0, arguments="\\"), Provider(name="B", level=1)])
@example([Provider(name="A", keywords=0, level=0, arguments='a="\\";b="x,y"'), Provider(name="B", level=1)])
@example([Provider(name="A", keywords=0, level=0, arguments="a,b"), Provider(name="B", level=1)])
def test_what_is_written_is_read_back(providers: list[Provider]) -> None:
    text = format_providers(providers)
    assert parse_providers(text) == tuple(providers)
    assert format_providers(parse_providers(text)) == text


@given(st.text(st.sampled_from('A1:+,"\\=; x0u') | st.characters()))
def test_what_is_read_can_be_written(text: str) -> None:
    try:
        providers = parse_providers(text)
    except UsageError:
        return
    assert parse_providers(format_providers(providers)) == providers


def test_text_stays_readable_where_quotes_protect_commas() -> None:
    assert format_providers(parse_providers('A:1:4:k="x,y";l=2,B')) == 'A:0x1:4:k="x,y";l=2,B:0x0:4'


@pytest.mark.parametrize(
    "provider",
    [
        Provider(name=""),
        Provider(name=" A"),
        Provider(name="A:B"),
        Provider(name="A,B"),
        Provider(name='A"'),
        Provider(name=GUID),
        Provider(name="A", level=6),
        Provider(name="A", arguments=""),
        Provider(name="A", event_filter=EventFilter(enable=True, ids=(1,))),
        Provider(name="A", tracepoints=Tracepoints(default="t")),
    ],
)
def test_what_the_grammar_has_no_room_for_is_not_written(provider: Provider) -> None:
    with pytest.raises(UsageError, match="cannot be written as text"):
        format_providers((Provider(name="Other"), provider))


# CLR events and event filters -----------------------------------------------------------------------------------------


def test_clr_events_are_keyword_names() -> None:
    assert parse_clr_events("gc+exception") == Provider(name=CLR, keywords=0x8001, level=4)
    assert parse_clr_events("+".join(CLR_KEYWORDS), 5).level == 5


@pytest.mark.parametrize(
    ("text", "position"), [("gc+nonsense", 3), ("", 0), ("gc+", 3), ("0x1", 0), ("gc+" + "x" * 5000, 3)]
)
def test_other_clr_events_are_pointed_at(text: str, position: int) -> None:
    with pytest.raises(GrammarError, match=r"^CLR events: .*is not a valid CLR event keyword") as caught:
        parse_clr_events(text)
    assert caught.value.position == position
    with pytest.raises(GrammarError, match=r"^CLR events: this quote is not closed"):
        parse_clr_events('gc+"')


def test_event_filters_take_ids_and_ranges() -> None:
    assert parse_event_filter("A=3,5-6,5") == ("A", EventFilter(enable=True, ids=(3, 5, 6)))
    assert parse_event_filter(" A != 0 , 65535") == ("A", EventFilter(enable=False, ids=(0, 65535)))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("A", 0),
        ("=1", 0),
        ("!=1", 0),
        ("A=", 2),
        ("A=1,", 4),
        ("A=1,x", 4),
        ("A=1,²", 4),
        ("A=1,5-", 4),
        ("A=6-5", 2),
        ("A=65536", 2),
    ],
)
def test_other_event_filters_are_pointed_at(text: str, position: int) -> None:
    with pytest.raises(GrammarError, match=r"^event filter: ") as caught:
        parse_event_filter(text)
    assert caught.value.position == position


def test_an_error_in_a_later_part_of_a_filter_is_pointed_at() -> None:
    with pytest.raises(GrammarError) as caught:
        parse_event_filter("A=100,20-30,x")
    assert caught.value.position == 12


def test_clr_events_have_their_keywords_and_no_others() -> None:
    assert parse_clr_events("exception").keywords == 0x8000
    assert parse_clr_events("gchandle+exception").keywords == 0x8002


# where quotes and backslashes stand -------------------------------------------------------------------------------------


def test_a_quote_may_be_the_first_character() -> None:
    (only,) = parse_providers('"A,B":1')
    assert (only.name, only.keywords) == ('"A,B"', 1)
    (only,) = parse_providers(r'"A\",B":2')
    assert (only.name, only.keywords) == (r'"A\",B"', 2)
    first, second = parse_providers('"A",B')
    assert (first.name, second.name) == ('"A"', "B")


def test_a_backslash_outside_of_quotes_protects_nothing() -> None:
    with pytest.raises(GrammarError, match="unknown escape") as caught:
        parse_providers("A:1:4:a=\\,B")
    assert caught.value.position == 8
    with pytest.raises(GrammarError, match="not closed"):
        parse_providers('A:1:4:"\\')


@pytest.mark.parametrize("pad", ["", "a", "ab", "abc"])
def test_escapes_are_read_wherever_they_stand(pad: str) -> None:
    assert parse_providers(rf"A:1:4:{pad}\x41\u00e9\tz")[0].arguments == f"{pad}Aé\tz"
    for tail in ("", ",B"):
        with pytest.raises(GrammarError, match=r"unknown escape \\ ") as caught:
            parse_providers(f"A:1:4:{pad}\\{tail}")
        assert caught.value.position == 6 + len(pad)
    for escape in (r"\x4", r"\u00e"):
        with pytest.raises(GrammarError, match="hex digits"):
            parse_providers(f"A:1:4:{pad}{escape},B")


def test_long_words_are_shown_cut() -> None:
    for size, shown in ((60, "v" * 60), (61, "v" * 60 + "…"), (5000, "v" * 60 + "…")):
        with pytest.raises(GrammarError) as caught:
            parse_level("v" * size)
        assert caught.value.problem.startswith(f"'{shown}' is no level")


@pytest.mark.parametrize(
    ("word", "near"), [("exeption", "exception"), ("EXEPTION", "exception"), ("gcc", "gc"), ("jitt", "jit")]
)
def test_the_nearest_keyword_is_named(word: str, near: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_clr_events(f"gc+{word}")
    assert caught.value.problem == f"'{word}' is not a valid CLR event keyword; did you mean '{near}'?"
    assert caught.value.position == 3


def test_event_ids_are_0_to_65535() -> None:
    assert parse_event_filter("A=0,65535,0065535")[1].ids == (0, 65535)
    for ids in ("65536", "0-65536", "2-1", "131070", "9" * 5000):
        with pytest.raises(GrammarError, match="event ids are 0 to 65535, low before high"):
            parse_event_filter(f"A={ids}")
