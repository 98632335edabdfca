"""The providers of a process and the sessions that run: who comes later, provider or session, finds the other.

Rule 1: :attr:`Registry.lock` is held whenever a provider is joined or left, and while one changes what it offers. It is the only lock of the
providers, so that a fork finds it free; in the child no session runs.
Rule 2: the program, a fork and every client need that lock: nobody holds it who waits for a reader. So rundown, which may be more than a
buffer holds, is written without it.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import Metadata
from dotnetdiag.server.blocking import own_lock
from dotnetdiag.server.subscription import Subscription

RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
EVENT_IDS = range(1, 0xFFFF)


class Provider(Protocol):
    """Whoever writes events under a name."""

    @property
    def name(self) -> str:
        """As requests have it, in the same case."""

    def join(self, subscription: Subscription) -> None:
        """A session wants events from now on. Of a provider of :data:`RUNDOWN`: it wants all of it now; by several threads at once."""

    def leave(self, subscription: Subscription) -> None:
        """It wants no more. What was begun may still be written. Waits for nothing."""


class Registry:
    """Providers by name, joined with the sessions that ask for them."""

    def __init__(self) -> None:
        self.lock = own_lock()
        self._providers: list[Provider] = []
        self._subscriptions: list[Subscription] = []
        self._kinds: dict[str, dict[int, Metadata]] = {}
        """What the ids of each name have stood for: readers know an event by these two."""
        _registries.add(self)

    def add(self, provider: Provider) -> None:
        """Offer a provider; sessions that run and asked for its name are joined."""
        with self.lock:
            self._providers.append(provider)
            for subscription in self._subscriptions:
                if subscription.provider == provider.name:
                    provider.join(subscription)

    def remove(self, provider: Provider) -> None:
        """Offer it no more. One that is not there is nothing to do."""
        with self.lock:
            if provider not in self._providers:
                return
            self._providers.remove(provider)
            for subscription in self._subscriptions:
                if subscription.provider == provider.name:
                    provider.leave(subscription)

    def join(self, subscription: Subscription) -> None:
        """A session asks for a provider, which may not be there yet."""
        with self.lock:
            self._subscriptions.append(subscription)
            for provider in self._named(subscription.provider):
                provider.join(subscription)

    def leave(self, subscription: Subscription) -> None:
        """It wants no more."""
        with self.lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
                for provider in self._named(subscription.provider):
                    provider.leave(subscription)

    def write_rundown(self, subscription: Subscription) -> None:
        """Have the providers of its name that are there now write everything. As long as that waits for the reader, so does the caller."""
        with self.lock:
            providers = self._named(subscription.provider)
        for provider in providers:
            provider.join(subscription)
            provider.leave(subscription)

    def declare(self, kind: Metadata) -> Metadata:
        """The event type with the id that it gets: its own, or for the id 0 that of the same type of a source before, or the next that is
        free. One name has one type for each id, however many sources it has. Raises UsageError for an id that stands for another type.
        """
        with self.lock:
            there = self._kinds.setdefault(kind.provider, {})
            if kind.event_id:
                if there.setdefault(kind.event_id, kind) != kind:
                    raise UsageError(
                        f"{kind.event_id} is taken: it stands for {there[kind.event_id].name} of {kind.provider}"
                    )
                return kind
            same = (one for one in there.values() if replace(one, event_id=0) == kind)
            made = next(same, None)
            if made is None:
                number = next((one for one in EVENT_IDS if one not in there), 0)
                if not number:
                    raise UsageError(f"{kind.provider} has an event for every id: 1 to {EVENT_IDS[-1]}")
                made = there[number] = replace(kind, event_id=number)
            return made

    def subscriptions(self, name: str) -> tuple[Subscription, ...]:
        """Those of the sessions that run."""
        with self.lock:
            return tuple(one for one in self._subscriptions if one.provider == name)

    def _named(self, name: str) -> list[Provider]:
        return [provider for provider in self._providers if provider.name == name]

    def forget_sessions(self) -> None:
        """In a child after a fork: the sessions are the parent's."""
        for subscription in list(self._subscriptions):
            self.leave(subscription)


_registries: weakref.WeakSet[Registry] = weakref.WeakSet()
REGISTRY = Registry()
"""That of the process."""


_at_fork: list[Registry] = []
"""Those whose lock the thread that forks holds."""


def _before_fork() -> None:
    for registry in list(_registries):
        registry.lock.acquire()
        _at_fork.append(registry)


def _after_fork() -> None:
    while _at_fork:
        _at_fork.pop().lock.release()


def _in_child() -> None:
    for registry in _at_fork:
        registry.forget_sessions()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
