"""Which addresses runtimes can be told in ``DOTNET_DiagnosticPorts``, and dial: a socket of ours may have others, and would wait for nobody.

Commas and semicolons divide that variable. A path that a socket address cannot hold is dropped without a word; of one that is no UTF-8
CoreCLR dials another (10.0.14).
"""

from __future__ import annotations

from dotnetdiag.errors import UsageError
from dotnetdiag.transport.addresses import Address, UnixAddress
from dotnetdiag.transport.sockets import LONGEST_SUN_PATH


def undialable(address: Address) -> str:
    """Why no runtime can dial it; ``""`` when it can be dialled."""
    if {",", ";"} & set(str(address)):
        return "runtimes take no address with a comma or a semicolon"
    if not isinstance(address, UnixAddress):
        return ""
    try:
        size = len(address.path.encode())
    except UnicodeEncodeError:
        return "runtimes dial no path that is no UTF-8"
    if size > LONGEST_SUN_PATH:
        return f"the path has {size} bytes, and runtimes dial no path of more than {LONGEST_SUN_PATH}"
    return ""


def check_dialable(address: Address) -> None:
    """For a port that runtimes are to dial. Raises UsageError."""
    if problem := undialable(address):
        raise UsageError(f"{address}: {problem}")
