from __future__ import annotations

from dotnetdiag.transport.refcount import RefCount


def test_the_last_one_who_releases_frees() -> None:
    said: list[str] = []
    refs = RefCount(lambda: said.append("freed"))
    assert refs.acquire()
    assert refs.acquire()
    refs.close(lambda: said.append("woken"))
    refs.close(lambda: said.append("woken twice"))
    assert said == ["woken"]
    assert not refs.acquire()
    refs.release()
    assert said == ["woken"]
    refs.release()
    assert said == ["woken", "freed"]


def test_nobody_uses_it() -> None:
    said: list[str] = []
    refs = RefCount(lambda: said.append("freed"))
    refs.close(lambda: None)
    assert said == ["freed"]
