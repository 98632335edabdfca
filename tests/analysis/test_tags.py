"""Tags, taken apart as far as can be known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis.tags import MANY, TagTexts


def read(text: str, *others: str) -> dict[str, str]:
    texts = TagTexts()
    texts.learn([text, *others])
    return dict(texts.read(text))


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", {}),
        ("room=a,b", {"room": "a,b"}),
        ("room=zażółć=🐍", {"room": "zażółć=🐍"}),
        ("code=200,route=/slow", {"code": "200", "route": "/slow"}),
        ('x=q"u,o', {"x": 'q"u,o'}),
        ("d=True,f=1.5", {"d": "True", "f": "1.5"}),
        ("n=", {"n": ""}),
        ("=", {"": ""}),
        ("Z=3,_=5,a=1,b=2,é=4", {"Z": "3", "_": "5", "a": "1", "b": "2", "é": "4"}),
        ("a=,b=", {"a": "", "b": ""}),
        ("a=,,b=1", {"a": ",", "b": "1"}),
        ("a,b=1", {"a,b": "1"}),
        ("nothing", {"nothing": ""}),
    ],
)
def test_a_piece_without_an_equals_sign_goes_on_with_the_value_before_it(text: str, tags: dict[str, str]) -> None:
    assert read(text) == tags


def test_a_key_that_is_not_in_order_is_none_for_the_runtime_sorts_them() -> None:
    assert read("room=a,b=1") == {"room": "a,b=1"}
    assert read("k=1,k=2") == {"k": "1,k=2"}
    assert read("a=1,c=2,b=3,d=4") == {"a": "1", "c": "2,b=3", "d": "4"}
    # by UTF-16 units: a surrogate is before what is at the end of the plane
    assert read("\U0001f40d=1,\uff5e=2") == {"\U0001f40d": "1", "\uff5e": "2"}
    assert read("\uff5e=1,\U0001f40d=2") == {"\uff5e": "1,\U0001f40d=2"}


def test_metadata_of_event_counters_has_colons_and_no_order() -> None:
    texts = TagTexts(":", is_sorted=False)
    assert texts.read("zone:eu,west=1") == {"zone": "eu,west=1"}
    assert texts.read("b:1,a:2") == {"b": "1", "a": "2"}


def test_a_key_is_a_name_unless_it_is_the_first_of_another_series() -> None:
    assert read("query=select a, b=1") == {"query": "select a, b=1"}
    assert read('q=x,"y"=1') == {"q": 'x,"y"=1'}
    assert read("query=select a, z=1") == {"query": "select a, z=1"}
    assert read("a=1,the key=2") == {"a": "1,the key=2"}
    assert read("a=1,the key=2", "the key=3") == {"a": "1", "the key": "2"}


def test_of_one_series_alone_every_key_counts() -> None:
    assert read("w=x,y=z") == {"w": "x", "y": "z"}


def test_a_key_that_no_other_series_has_is_a_part_of_a_value_that_has_commas_elsewhere() -> None:
    assert read("room=x,z=1", "room=a,b") == {"room": "x,z=1"}
    assert read("room=x,z=1", "room=a,b", "room=y,z=1") == {"room": "x", "z": "1"}
    assert read("room=x,y,z=1") == {"room": "x,y", "z": "1"}, "its own comma says nothing of this one"


def test_a_key_that_no_other_series_has_is_a_part_of_a_value_where_many_others_have_just_the_other_keys() -> None:
    others = [f"room={number}" for number in range(MANY)]
    assert read("room=x,z=1", *others) == {"room": "x,z=1"}
    assert read("room=x,z=1", *others[1:]) == {"room": "x", "z": "1"}
    assert read("room=x,z=1", *others, "hall=1") == {"room": "x", "z": "1"}
    assert read("room=x,z=1", *others, "room=x") == {"room": "x", "z": "1"}, "an optional tag"


def test_what_was_read_stays_as_it_is() -> None:
    texts = TagTexts()
    assert texts.read("room=x,z=1") == {"room": "x", "z": "1"}
    texts.learn(["room=a,b"])
    assert texts.read("room=x,z=1") == {"room": "x", "z": "1"}
    assert texts.read("room=y,zz=1") == {"room": "y,zz=1"}


PARTS = st.text('ab=," é🐍', max_size=6)


@given(st.lists(st.tuples(PARTS, PARTS), max_size=4), st.lists(PARTS, max_size=6))
def test_the_tags_one_after_another_are_the_text_again(pairs: list[tuple[str, str]], others: list[str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in pairs)
    assert ",".join(f"{key}={value}" for key, value in read(text, *others).items()) == text


KEYS = st.lists(st.text("abcxyz._", min_size=1, max_size=4), min_size=1, max_size=4, unique=True)


@given(KEYS, st.lists(st.text('ab= é🐍"', max_size=5), min_size=4, max_size=4))
def test_tags_without_commas_come_through_exactly(keys: list[str], values: list[str]) -> None:
    tags = dict(zip(sorted(keys), values, strict=False))
    assert read(",".join(f"{key}={value}" for key, value in tags.items())) == tags


@given(st.text('ab=, é🐍"', max_size=10))
def test_a_value_without_a_comma_and_an_equals_sign_behind_it_comes_through_exactly(value: str) -> None:
    if "=" not in value.partition(",")[2]:
        assert read(f"room={value}") == {"room": value}
