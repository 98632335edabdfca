"""Our ``dataclass`` against the standard library's, on the same classes; and that questions are answered without the latter."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import pytest
from tests.nettrace.recordings import recording

import dotnetdiag._dataclasses as ours

OPTIONS = [
    dict(zip(("frozen", "slots", "kw_only", "eq", "repr"), chosen, strict=True))
    for chosen in itertools.product((False, True), repeat=5)
]


def make(of: Any, options: dict[str, bool]) -> Any:
    """A class of each kind of field."""

    @of.dataclass(**options)
    class Point:
        """Where."""

        KIND: ClassVar[str] = "point"

        x: int
        y: int = 2
        names: list[str] = of.field(default_factory=list)
        hidden: str = of.field(default="h", repr=False, compare=False)

        @property
        def both(self) -> int:
            return self.x + self.y

    return Point


def make_derived(of: Any, options: dict[str, bool]) -> Any:
    """One that inherits, has something done behind its making, and a field that nobody gives."""

    @of.dataclass(**options)
    class Place(make(of, options)):  # type: ignore[misc]
        """Where it lies."""

        y: int = 3
        seen: list[str] = of.field(init=False, default_factory=lambda: ["made"])
        z: int = 4

        def __post_init__(self) -> None:
            self.seen.append(f"{self.x} {self.names}")

    return Place


CALLS: list[Callable[[Any], Any]] = [
    lambda cls: cls(x=1),
    lambda cls: cls(x=1, y=5, names=["a"], hidden="b"),
    lambda cls: cls(1),
    lambda cls: cls(1, 5, ["a"]),
    lambda cls: cls(1, y=5),
    lambda cls: cls(),
    lambda cls: cls(y=1),
    lambda cls: cls(1, x=1),
    lambda cls: cls(1, 2, [], "h", 5, 6, 7),
    lambda cls: cls(x=1, other=3),
    lambda cls: cls(x=1) == cls(x=1),
    lambda cls: cls(x=1) == cls(x=1, hidden="else"),
    lambda cls: cls(x=1) == cls(x=2),
    lambda cls: cls(x=1) == 1,
    lambda cls: cls(x=1) != cls(x=1),
    lambda cls: hash(cls(x=1)) == hash(cls(x=1)),
    lambda cls: cls.__hash__ is None,
    lambda cls: inspect.signature(cls),
    lambda cls: cls.__match_args__,
    lambda cls: cls.__doc__,
    lambda cls: (cls.__name__, cls.__qualname__.rsplit(".")[-1], cls.__module__),
    lambda cls: [(f.name, f.type, f.init, f.repr, f.compare, f.kw_only, f.default) for f in dataclasses.fields(cls)],
    lambda cls: dataclasses.asdict(cls(x=1)),
    lambda cls: dataclasses.is_dataclass(cls),
    lambda cls: dataclasses.replace(cls(x=1), y=9),
    lambda cls: ours.replace(cls(x=1), y=9),
    lambda cls: ours.replace(cls(x=1), other=9),
    lambda cls: ours.field_names(cls),
    lambda cls: copy.copy(cls(x=1)),
    lambda cls: copy.deepcopy(cls(x=1, names=["a"])),
    lambda cls: setattr(cls(x=1), "x", 2),
    lambda cls: delattr(cls(x=1), "x"),
    lambda cls: cls(x=1).__dict__,
    lambda cls: cls.__slots__,
    lambda cls: cls.KIND,
    lambda cls: cls(x=1).both,
    lambda cls: cls(x=1).names is cls(x=1).names,
    lambda cls: isinstance(cls.__dict__.get("y"), int),
    lambda cls: isinstance(cls.__dict__.get("hidden"), str),
    lambda cls: "names" in cls.__dict__,
]


def outcome(call: Callable[[Any], Any], cls: Any) -> str:
    """What comes of it, as a text."""
    try:
        found = call(cls)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(found, cls) and cls.__repr__ is object.__repr__:
        return repr([getattr(found, name) for name in ours.field_names(cls)])
    return repr(found)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(k for k, v in options.items() if v) or "none")
@pytest.mark.parametrize("maker", [make, make_derived])
def test_same_as_the_standard_librarys(maker: Callable[[Any, dict[str, bool]], Any], options: dict[str, bool]) -> None:
    """Each call, on a class of either."""
    own, standard = maker(ours, options), maker(dataclasses, options)
    assert hasattr(own, "__dotnetdiag_plan__")
    for number, call in enumerate(CALLS):
        expected = outcome(call, standard).replace(maker.__name__, "")
        assert outcome(call, own).replace(maker.__name__, "") == expected, number


@dataclasses.dataclass(frozen=True)
class Standard:
    """Of the standard library."""

    a: int


@ours.dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Of ours."""

    a: int
    b: tuple[str, ...] = ()


@ours.dataclass(frozen=True)
class Kept:
    """With room for more."""

    a: int

    @cached_property
    def twice(self) -> int:
        """Made once."""
        return 2 * self.a


def test_either_may_inherit_from_the_other() -> None:
    """Fields of both, in their order."""

    @ours.dataclass(frozen=True)
    class Below(Standard):
        b: int

    @dataclasses.dataclass(frozen=True)
    class Above(Kept):
        b: int

    assert repr(Below(1, 2)).endswith("Below(a=1, b=2)")
    assert repr(Above(1, 2)).endswith("Above(a=1, b=2)")
    assert Above(1, 2).twice == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Below(1, 2).a = 3  # type: ignore[misc]


def test_frozen_does_not_go_with_what_changes() -> None:
    """As the standard library says."""
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):

        @ours.dataclass
        class _Changing(Kept):  # type: ignore[misc]
            b: int


def test_what_is_not_known_is_the_standard_librarys() -> None:
    """Order, values for ``__init__`` alone, a default that can be changed."""

    @ours.dataclass(order=True)
    class Ordered:
        a: int
        b: dataclasses.InitVar[int] = 0

    assert Ordered(1) < Ordered(2, b=3)
    with pytest.raises(ValueError, match="mutable default"):

        @ours.dataclass
        class _Shared:
            a: list[int] = []  # noqa: RUF012 # what it is about


@pytest.mark.parametrize("one", [Own(a=1, b=("x",)), Kept(3), Standard(1)])
def test_pickles(one: Any) -> None:
    """As frozen ones with slots do."""
    assert pickle.loads(pickle.dumps(one)) == one  # what these bytes are we know


def test_a_frozen_one_takes_nothing_else_either() -> None:
    """With slots the standard library's says this with an error of its own (3.11)."""
    for one in (Own(a=1), Kept(1)):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'more'"):
            one.more = 2  # type: ignore[union-attr]


def test_a_subclass_may_have_more() -> None:
    """That is none of the fields of a frozen class."""

    class More(Kept):
        def __init__(self) -> None:
            super().__init__(a=1)
            self.other = 2

    assert (More().a, More().other, More() == More()) == (1, 2, True)
    with pytest.raises(dataclasses.FrozenInstanceError, match="'a'"):
        More().a = 3  # type: ignore[misc]
    assert str(inspect.signature(More)) == "() -> 'None'"


def test_abstract_ones_stay_so() -> None:
    """Until the method is there."""

    @ours.dataclass(frozen=True, slots=True)
    class Shape(ABC):
        a: int

        @abstractmethod
        def area(self) -> int:
            """Of it."""

    @ours.dataclass(frozen=True, slots=True)
    class Square(Shape):
        def area(self) -> int:
            return self.a**2

    assert Square(3).area() == 9
    with pytest.raises(TypeError, match="abstract"):
        Shape(3)  # type: ignore[abstract]


def test_one_that_holds_itself_says_so() -> None:
    """Not for ever."""

    @ours.dataclass
    class Loop:
        inner: Any = None

    loop = Loop()
    loop.inner = loop
    assert repr(loop).endswith("Loop(inner=...)")


def test_matches_by_position() -> None:
    """``match`` reads the names."""
    match Kept(3):
        case Kept(a):
            assert a == 3


@pytest.mark.parametrize("words", [["gc"], ["gc", "--json"], ["jit", "--json"]], ids=" ".join)
def test_reports_load_neither_the_standard_librarys_nor_what_numpy_uses_seldom(words: list[str]) -> None:
    """The most of a short report was once the loading of modules."""
    trace = recording("gccollect-10.nettrace")
    code = (
        "import sys; sys.argv = ['dotnetdiag', 'trace', 'report', *sys.argv[1:]]\n"
        "from dotnetdiag.cli import main as one\n"
        "one._leave = lambda code: print('LOADED', code, *sorted(sys.modules))\n"
        "one.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(trace), *words], capture_output=True, text=True, timeout=120, check=True
    )
    _, code_, *loaded = next(line for line in run.stdout.splitlines() if line.startswith("LOADED")).split()
    assert code_ == "0"
    seldom = {"dataclasses", "inspect", "ast", "ctypes", "pickle", "platform", "numpy.linalg", "numpy._typing", "click"}
    assert "numpy" in loaded
    assert seldom & set(loaded) == set()


@pytest.mark.parametrize(
    "options", OPTIONS[::3], ids=lambda options: "+".join(k for k, v in options.items() if v) or "none"
)
@pytest.mark.parametrize("maker", [make, make_derived])
def test_many_of_a_class_are_as_the_first(
    maker: Callable[[Any, dict[str, bool]], Any], options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made by the standard library's own code."""
    monkeypatch.setattr(ours, "MANY", 3)
    own, standard = maker(ours, options), maker(dataclasses, options)
    for _ in range(5):
        own(x=1)
    assert own.__init__.__code__.co_filename == standard.__init__.__code__.co_filename
    for number, call in enumerate(CALLS):
        expected = outcome(call, standard).replace(maker.__name__, "")
        assert outcome(call, own).replace(maker.__name__, "") == expected, number


def test_a_subclass_tells_its_own_signature_whoever_asked_before() -> None:
    """Also where it is the base's."""

    class Narrower(Kept):
        def __init__(self, only_this: int) -> None:
            super().__init__(a=only_this)

    class Same(Kept):
        pass

    for _ in range(2):
        assert list(inspect.signature(Narrower).parameters) == ["only_this"]
        assert list(inspect.signature(Same).parameters) == list(inspect.signature(Kept).parameters) == ["a"]


def test_what_a_subclass_does_with_values_is_done() -> None:
    """Its ``__setattr__``, where values may change."""

    @ours.dataclass
    class Open:
        a: int

    class Doubled(Open):
        def __setattr__(self, name: str, value: int) -> None:
            super().__setattr__(name, 2 * value)

    assert Doubled(3).a == 6


def test_defaults_that_do_something_are_the_standard_librarys() -> None:
    """Descriptors, as Python documents them."""

    class Number:
        def __get__(self, instance: object, owner: type) -> int:
            return 5

    @ours.dataclass
    class Held:
        a: int = Number()  # type: ignore[assignment]

    assert Held().a == 5


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(k for k, v in options.items() if v) or "none")
def test_a_function_may_be_a_default(options: dict[str, bool]) -> None:
    """As an observer's, that does nothing."""

    def made(of: Any) -> Any:
        @of.dataclass(**options)
        class Observer:
            told: Callable[[int], Any] = lambda number: number + 1
            count: int = 0

        return Observer

    own, standard = made(ours), made(dataclasses)
    assert "__dotnetdiag_plan__" in vars(own)
    for cls in (own, standard):
        assert cls().told(1) == 2
        assert cls(told=str).told(1) == "1"
    assert [one.name for one in dataclasses.fields(own)] == ["told", "count"]
    assert inspect.signature(own).parameters.keys() == inspect.signature(standard).parameters.keys()


class Place(NamedTuple):
    """Of what."""

    of: Any
    number: int


def test_as_dict_is_that_of_the_standard_library() -> None:
    @ours.dataclass(frozen=True, slots=True, kw_only=True)
    class Inner:
        name: str
        values: tuple[int, ...] = (1, 2)

    @ours.dataclass(kw_only=True)
    class Outer:
        inner: Inner
        many: list[Inner]
        by_name: dict[str, Any]
        other: Any = None

    one = Inner(name="a")

    class More(Inner):
        pass

    place = Place(one, 3)
    more = More(name="more")
    assert ours.as_dict(more) == dataclasses.asdict(more)
    assert ours.as_dict(Outer(inner=more, many=[more], by_name={})) == dataclasses.asdict(
        Outer(inner=more, many=[more], by_name={})
    )
    with pytest.raises(TypeError):
        ours.as_dict(Inner)
    outer = Outer(
        inner=one,
        many=[one, Inner(name="b", values=())],
        by_name={"x": one, "y": [1.5, None], "z": place},
        other={1, 2},
    )
    made = ours.as_dict(outer)
    assert made == dataclasses.asdict(outer)
    assert made["by_name"] is not outer.by_name
    assert made["other"] is not outer.other
    assert made["inner"] == {"name": "a", "values": (1, 2)}
