"""Startup hooks, usable and not, and what is said of each. ``tests/live/test_hooks.py`` asks real runtimes about the same files."""

from __future__ import annotations

from tests.client.assemblies import (
    ABSTRACT,
    ARM64,
    HOOK,
    IL_ONLY,
    ONLY_32_BIT,
    PINVOKE,
    PRIVATE,
    PUBLIC,
    STATIC,
    VIRTUAL,
    VOID_NO_PARAMETERS,
    X64,
    Method,
    Type,
    assembly,
)

INSTANCE = b"\x20\x00\x01"  # instance void ()
TAKES_INT = b"\x00\x01\x01\x08"  # void (int)
RETURNS_INT = b"\x00\x00\x08"  # int ()
GENERIC = b"\x10\x01\x00\x01"  # void <T>()
VARARG = b"\x05\x00\x01"  # void (…)


def hook(*methods: Method) -> bytes:
    return assembly(Type(methods=methods))


USABLE = {
    "public": assembly(HOOK),
    "private": hook(Method(flags=PRIVATE | STATIC)),
    "an overload with parameters first": hook(Method(signature=TAKES_INT), Method()),
    "an overload of instances": hook(Method(flags=PUBLIC, signature=b"\x20\x01\x01\x08"), Method()),
    "other methods around it": hook(Method(name="initialize", signature=TAKES_INT), Method(), Method(name="Initialize2")),
    "a nested type of the name before it": assembly(Type(name="Outer", methods=()), Type(inside=1), HOOK),
    "a type of the name in a namespace before it": assembly(Type(namespace="N", methods=()), HOOK),
    "types after it": assembly(HOOK, Type(name="Other", methods=(Method(signature=TAKES_INT),))),
    "the attribute of reference assemblies on a type": assembly(HOOK, has_reference_type=True),
    "wide heaps": assembly(HOOK, wide_heaps=True),
    "for x64": assembly(HOOK, machine=X64),
    "for an older runtime": assembly(HOOK, built_for=(4, 2)),
}  # fmt: skip

_FORM = "its StartupHook.Initialize is not `static void Initialize()`"
_NO_TYPE = "it has no type StartupHook outside of a namespace"
_NO_METHOD = "its type StartupHook has no method Initialize"
_NO_BODY = "its StartupHook.Initialize has no body"
# Each kills .NET 9 and 10.
UNUSABLE = {
    "not static": (hook(Method(flags=PUBLIC, signature=INSTANCE)), _FORM),
    "not static by its flags alone": (hook(Method(flags=PUBLIC, signature=VOID_NO_PARAMETERS)), _FORM),
    "with a parameter": (hook(Method(signature=TAKES_INT)), _FORM),
    "returns int": (hook(Method(signature=RETURNS_INT)), _FORM),
    "generic": (hook(Method(signature=GENERIC)), _FORM),
    "with variable arguments": (hook(Method(signature=VARARG)), _FORM),
    "a generic one beside it": (hook(Method(), Method(signature=GENERIC)), _FORM),
    "one that returns int beside it": (hook(Method(signature=RETURNS_INT), Method()), _FORM),
    "two with parameters": (hook(Method(signature=TAKES_INT), Method(signature=b"\x00\x01\x01\x0e")), _FORM),
    "in lower case": (hook(Method(name="initialize")), _NO_METHOD),
    "no methods": (hook(), _NO_METHOD),
    "the method in the next type": (assembly(Type(methods=()), Type(name="Other")), _NO_METHOD),
    "abstract": (hook(Method(flags=PUBLIC | STATIC | ABSTRACT | VIRTUAL, has_body=False)), _NO_BODY),
    "without a body": (hook(Method(has_body=False)), _NO_BODY),
    "in a namespace": (assembly(Type(namespace="N")), _NO_TYPE),
    "in another type": (assembly(Type(name="Outer", methods=()), Type(inside=1)), _NO_TYPE),
    "type in lower case": (assembly(Type(name="startupHook")), _NO_TYPE),
    "a longer name": (assembly(Type(name="StartupHooks")), _NO_TYPE),
    "a generic type": (assembly(Type(name="StartupHook`1")), _NO_TYPE),
    "no types": (assembly(), _NO_TYPE),
    "a module": (assembly(HOOK, is_module=True), "it is a module, not an assembly"),
    "a reference assembly": (assembly(HOOK, is_reference=True), "it is a reference assembly, without the code"),
    "for x86": (assembly(HOOK, flags=IL_ONLY | ONLY_32_BIT), "it is built for x86, and the target runs on x64"),
    "for arm64": (assembly(HOOK, machine=ARM64), "it is built for arm64, and the target runs on x64"),
    "for a newer runtime": (assembly(HOOK, built_for=(11, 0)), "it is built for .NET 11.0, and the target runs 10.0.14"),
}  # fmt: skip
# What it does then is its own affair; nothing of it is run here.
NATIVE = hook(Method(flags=PUBLIC | STATIC | PINVOKE, has_body=False))
