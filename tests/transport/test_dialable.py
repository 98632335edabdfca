"""Addresses that runtimes can be told, and dial."""

from __future__ import annotations

import os

import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.transport.addresses import Address, TcpAddress, UnixAddress
from dotnetdiag.transport.dialable import check_dialable, undialable
from dotnetdiag.transport.sockets import LONGEST_SUN_PATH


@pytest.mark.parametrize(
    "address",
    [
        UnixAddress("/tmp/a b"),
        UnixAddress("/" + "x" * (LONGEST_SUN_PATH - 1)),
        UnixAddress("/" + "ä" * ((LONGEST_SUN_PATH - 1) // 2)),
        UnixAddress("relative"),
        TcpAddress("::1", 1),
    ],
)
def test_an_address_that_fits_is_dialable(address: Address) -> None:
    assert undialable(address) == ""
    check_dialable(address)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/" + "x" * LONGEST_SUN_PATH, f"{LONGEST_SUN_PATH + 1} bytes, and runtimes dial no path of more than"),
        ("/" + "ä" * (LONGEST_SUN_PATH // 2 + 1), "runtimes dial no path of more than"),
        ("/a,b", "comma or a semicolon"),
        ("/a;b", "comma or a semicolon"),
        (os.fsdecode(b"/\xff"), "no UTF-8"),
    ],
)
def test_an_address_that_does_not_is_refused(path: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_dialable(UnixAddress(path))
