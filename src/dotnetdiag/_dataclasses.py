"""``dataclass`` as the standard library's, for what is loaded at every start: the same classes, in a tenth of the time.

Measured on 3.11: the standard library writes the source of six methods for each class and compiles it, up to 0.8 ms each, and loads ``inspect`` for
it: 28 of the 140 ms of a short report, which has 40 such classes on its way. Here the methods are closures. An object takes two to ten times as long
to make as with compiled code, so a class of which there are :data:`MANY` gets the standard library's ``__init__``. What :func:`dataclasses.fields`,
``asdict`` and :func:`inspect.signature` read is made by the standard library when they do. A class with more than is known here (``order``,
``InitVar``, ``metadata`` …) goes to the standard library at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

_PLAN = "__dotnetdiag_plan__"
_CLASS_VARIABLES = "ClassVar[", "typing.ClassVar["
_READ = "__dataclass_fields__", "__dataclass_params__", "__signature__"
_OPTIONS = frozenset({"frozen", "slots", "kw_only", "eq", "repr"})
_FIELD_OPTIONS = frozenset({"init", "default", "default_factory", "repr", "compare"})
_ATOMS = (str, int, float, bool, bytes, type(None))
"""What is as good as a copy of it."""
_set = object.__setattr__
MANY = 1 << 12
"""Objects of a class, whose making has cost what compiling it does."""


class _Unknown(Exception):
    """The standard library knows what to do here."""


class _Given(dict[str, Any]):
    """What stands in the body of a class where a field has options."""


class _Field:
    """One of a class, by what its place in the body says."""

    in_init = in_repr = in_compare = True
    options: Mapping[str, Any] = {}

    def __init__(self, name: str, annotation: str, kw_only: bool) -> None:
        self.name, self.annotation, self.kw_only = name, annotation, kw_only

    def put(self, options: Mapping[str, Any]) -> _Field:
        """What its place in the body says of it: few have any."""
        self.options = options
        if "default" not in options or len(options) > 1:
            self.in_init, self.in_repr, self.in_compare = (
                bool(options.get(what, True)) for what in ("init", "repr", "compare")
            )
        return self


class _Plan:
    """Of a class: the options that it was decorated with, and its fields, those that it inherits first."""

    __slots__ = ("cls", "fields", "initialiser", "options", "replaceable")

    def __init__(self, cls: type, options: Mapping[str, Any]) -> None:
        self.cls, self.options = cls, options
        self.initialiser: Callable[..., None] | None = None
        """The ``__init__`` that was made for it."""
        own = {one.name: one for one in _own_fields(cls, kw_only=bool(options.get("kw_only")))}
        self.fields = {**_inherited(cls, frozen=bool(options.get("frozen"))), **own}
        self.replaceable = all(one.in_init for one in self.fields.values())

    @property
    def own(self) -> dict[str, _Field]:
        """Those that the class has not from others alone."""
        return {name: self.fields[name] for name in self.cls.__annotations__ if name in self.fields}

    def quicken(self) -> None:
        """There are many of the class."""
        made = self.standard().__init__  # type: ignore[misc]  # of no instance, and of just this class
        if self.cls.__dict__.get("__init__") is self.initialiser:
            self.initialiser = made
            self.cls.__init__ = made  # type: ignore[misc]  # likewise

    def standard(self) -> type:
        """A class of the standard library with the same fields, and nothing else."""
        names: dict[str, Any] = {
            "__module__": self.cls.__module__,
            "__qualname__": self.cls.__qualname__,
            "__doc__": "The same.",
        }
        if hasattr(self.cls, "__post_init__"):
            names["__post_init__"] = self.cls.__post_init__
        annotations = {name: one.annotation for name, one in self.fields.items()}
        given = {name: _Given({**one.options, "kw_only": one.kw_only}) for name, one in self.fields.items()}
        like = type(self.cls.__name__, (), {**names, **given, "__annotations__": annotations})
        return _by_standard_library(like, {**self.options, "slots": False})


class _Later:
    """Stands for what others read of a class, until they do."""

    __slots__ = ("name", "plan")

    def __init__(self, name: str, plan: _Plan) -> None:
        self.name, self.plan = name, plan

    def __get__(self, instance: object, owner: type) -> Any:
        if self.name != "__signature__":
            value: Any = self.plan.standard().__dict__[self.name]
            setattr(self.plan.cls, self.name, value)
            return value
        if owner.__init__ is not self.plan.initialiser:  # type: ignore[misc]  # likewise
            raise AttributeError(self.name)  # it has an __init__ of its own, which tells
        from inspect import signature

        return signature(self.plan.standard())


def _by_standard_library(cls: type, options: Mapping[str, Any]) -> type:
    import dataclasses

    for name, value in list(cls.__dict__.items()):
        if isinstance(value, _Given):
            setattr(cls, name, dataclasses.field(**value))
    made: type = dataclasses.dataclass(**options)(cls)
    return made


def _define(cls: type, options: Mapping[str, Any]) -> type:
    plan = _Plan(cls, options)
    body = {name: value for name, value in _methods(plan) if name not in cls.__dict__}
    body |= {_PLAN: plan, **{name: _Later(name, plan) for name in _READ}}
    if options.get("slots"):
        plan.cls = _slotted(cls, plan.own, body)
        return plan.cls
    for name, one in plan.own.items():
        if "default" in one.options:
            setattr(cls, name, one.options["default"])
        elif one.options:
            delattr(cls, name)
    for name, value in body.items():
        setattr(cls, name, value)
    if hasattr(cls, "__abstractmethods__"):
        from abc import update_abstractmethods

        update_abstractmethods(cls)
    return cls


def _slotted(cls: type, own: Iterable[str], body: Mapping[str, Any]) -> type:
    if "__slots__" in cls.__dict__:
        raise _Unknown
    taken = {name for base in cls.__mro__[1:-1] for name in _slots_of(base)}
    kept = {key: value for key, value in cls.__dict__.items() if key not in {*own, "__dict__", "__weakref__"}}
    slots = tuple(name for name in own if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, {**kept, **body, "__slots__": slots})
    made.__qualname__ = cls.__qualname__
    return made


def _slots_of(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _own_fields(cls: type, *, kw_only: bool) -> Iterator[_Field]:
    annotations, body = cls.__annotations__, cls.__dict__
    for name, value in body.items():
        if value.__class__ is _Given and name not in annotations:
            raise _Unknown
    for name, annotation in annotations.items():
        if annotation.__class__ is not str or "InitVar" in annotation or "KW_ONLY" in annotation:
            raise _Unknown
        if "ClassVar" in annotation:
            if annotation.startswith(_CLASS_VARIABLES):
                continue
            raise _Unknown
        one = _Field(name, annotation, kw_only)
        yield one.put(_options_of(body[name])) if name in body else one


def _options_of(value: object) -> Mapping[str, Any]:
    """Of a field, what stands in the body of the class."""
    options: Mapping[str, Any] = value if isinstance(value, _Given) else {"default": value}
    made = options.keys() & {"default", "default_factory"}
    kind: type = type(options.get("default"))
    if options.keys() - _FIELD_OPTIONS or len(made) > 1 or kind.__hash__ is None:
        raise _Unknown
    if kind not in _ATOMS and kind is not FunctionType and (hasattr(kind, "__get__") or hasattr(kind, "__set_name__")):
        raise _Unknown
    if "default" in made and not options.get("init", True):
        raise _Unknown
    return options


def _inherited(cls: type, *, frozen: bool) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for base in cls.__mro__[-1:0:-1]:
        if _PLAN in base.__dict__:
            found |= base.__dict__[_PLAN].fields
            if bool(base.__dict__[_PLAN].options.get("frozen")) is not frozen:
                raise _Unknown
        elif _READ[0] in base.__dict__:
            raise _Unknown
    if frozen and not {"__setattr__", "__delattr__"}.isdisjoint(cls.__dict__):
        raise _Unknown
    return found


def _methods(plan: _Plan) -> Iterator[tuple[str, Any]]:
    cls, options, fields = plan.cls, plan.options, plan.fields.values()
    by_position = [one for one in fields if one.in_init and not one.kw_only]
    yield "__init__", _initialiser(plan, by_position)
    yield "__match_args__", tuple(one.name for one in by_position)
    yield "__replace__", replace
    if options.get("repr", True):
        yield "__repr__", _repr_of([one.name for one in fields if one.in_repr])
    if options.get("eq", True):
        if "__eq__" in cls.__dict__ and cls.__dict__.get("__hash__") is None:  # as Python leaves it there
            raise _Unknown
        key = _key([one.name for one in fields if one.in_compare])
        yield "__eq__", _eq_by(key)
        yield "__hash__", _hash_by(key) if options.get("frozen") else None
    if options.get("frozen"):
        yield "__setattr__", _refuse_to_set
        yield "__delattr__", _refuse_to_delete
        if options.get("slots"):
            yield "__getstate__", _state
            yield "__setstate__", _set_state


def _initialiser(plan: _Plan, by_position: list[_Field]) -> Callable[..., None]:
    fields = plan.fields.values()
    names = frozenset([one.name for one in fields if one.in_init])
    makers = {one.name: one.options["default_factory"] for one in fields if "default_factory" in one.options}
    defaults = {one.name: one.options["default"] for one in fields if "default" in one.options}
    required, positions = names - defaults.keys() - makers.keys(), [one.name for one in by_position]
    optional = [name not in required for name in positions]
    if optional != sorted(optional):
        raise _Unknown  # one that has no default behind one that has: its error
    in_order = [one.name for one in fields if one.in_init or one.name in makers]
    complete, always = frozenset(in_order), makers.keys() - names
    followed, store = hasattr(plan.cls, "__post_init__"), _set if plan.options.get("frozen") else setattr
    count = 0

    def __init__(self: Any, /, *arguments: Any, **given: Any) -> None:
        nonlocal count
        count += 1
        if count == MANY:
            plan.quicken()
        values = given
        if arguments:
            values = dict(zip(positions, arguments, strict=False))
            if len(arguments) > len(positions) or not values.keys().isdisjoint(given):
                _refuse_arguments(plan, arguments, given)
            values |= given
        if always or values.keys() != complete:
            if not required <= values.keys() <= names:
                _refuse_arguments(plan, arguments, given)
            values = {**defaults, **values}
            for name, make in makers.items():
                if name not in values:
                    values[name] = make()
        for name in in_order:
            store(self, name, values[name])
        if followed:
            self.__post_init__()

    __init__.__qualname__ = f"{plan.cls.__qualname__}.__init__"
    plan.initialiser = __init__
    return __init__


def _refuse_arguments(plan: _Plan, arguments: tuple[Any, ...], given: Mapping[str, Any]) -> NoReturn:
    """Raises TypeError, in Python's words."""
    plan.standard()(*arguments, **given)
    raise TypeError(f"{plan.cls.__qualname__}: these arguments do not go together: {arguments} {given}")


def _key(names: list[str]) -> Callable[[Any], Any]:
    """What is compared of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple(getattr(one, name) for name in names)


def _eq_by(key: Callable[[Any], Any]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash_by(key: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(key(self))

    return __hash__


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr("...")
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    _set(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(of: Any, name: str, what: str) -> None:
    if _PLAN in type(of).__dict__ or name in getattr(of, _PLAN).fields:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {what} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _PLAN).fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _PLAN).fields, state, strict=True):
        _set(self, name, value)


def field_names(of: object) -> tuple[str, ...]:
    """Of a class or an object the names of its fields, in their order."""
    plan = getattr(of, _PLAN, None)
    if plan is None or plan.cls is not (of if isinstance(of, type) else type(of)):
        from dataclasses import fields

        return tuple(one.name for one in fields(of))  # type: ignore[arg-type] # its own error, where it is none
    return tuple(plan.fields)


def as_dict(of: object) -> dict[str, Any]:
    """As :func:`dataclasses.asdict`: fields by name, what is in them likewise, of dicts, lists and tuples new ones; of others copies, also of those
    whose classes are made of dict or list, in which that looks for dataclasses.
    """
    if isinstance(of, type):
        raise TypeError("as_dict() is of instances of dataclasses")
    return {name: _plain(getattr(of, name)) for name in field_names(of)}


def _plain(value: Any) -> Any:
    if isinstance(value, _ATOMS):
        return value
    kind = type(value)
    if hasattr(kind, _PLAN) or any(_READ[0] in base.__dict__ for base in kind.__mro__):
        return as_dict(value)
    if kind is dict:
        return {_plain(key): _plain(one) for key, one in value.items()}
    if kind in (list, tuple):
        return kind(map(_plain, value))
    if hasattr(kind, "_fields"):  # a NamedTuple
        return kind(*map(_plain, value))
    from copy import deepcopy

    return deepcopy(value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, **options):
        """As :func:`dataclasses.dataclass`."""
        if cls is None:
            return lambda of: dataclass(of, **options)
        try:
            if options.keys() <= _OPTIONS:
                return _define(cls, options)
        except _Unknown:
            pass
        return _by_standard_library(cls, options)

    def field(**options):
        """As :func:`dataclasses.field`."""
        return _Given(options)

    def replace(of, /, **changes):
        """As :func:`dataclasses.replace`."""
        plan = getattr(type(of), _PLAN, None)
        if plan is None or type(of) is not plan.cls or not plan.replaceable:
            from dataclasses import replace as standard

            return standard(of, **changes)
        for name in plan.fields:
            if name not in changes:
                changes[name] = getattr(of, name)
        return type(of)(**changes)
