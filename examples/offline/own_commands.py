"""A program that answers two commands in its own way, and a tool that asks it: python own_commands.py."""

import json
import tempfile
from pathlib import Path

import dotnetdiag as dd
from dotnetdiag.server import (
    Caller,
    Command,
    DiagnosticServer,
    GenerateCoreDump3,
    HResult,
    PythonCommands,
    Refused,
    Reply,
    ResultReply,
    dump_path,
)

ORDERS = {7: "Ada", 8: "Grace"}


class ShopCommands(PythonCommands):
    """What this program is asked."""

    def dump(self, request: GenerateCoreDump3, caller: Caller) -> Reply:
        """All three commands for dumps come here."""
        print(f"process {caller.pid} wants a dump")
        if request.dump_type == dd.DumpType.FULL:
            raise Refused(HResult.FAIL, "the shop is too large for a full dump")
        Path(dump_path(request.path)).write_text(json.dumps(ORDERS), encoding="utf-8")
        return ResultReply()


def enable_perf_map(request: object, caller: Caller) -> Reply:
    """A function for one command."""
    print(f"process {caller.pid} sends {request}")
    return ResultReply()


folder = Path(tempfile.mkdtemp())
with DiagnosticServer(ShopCommands({Command.EnablePerfMap: enable_perf_map})) as server:
    client = dd.Client.connect(f"{server.listen(str(folder / 'port'))},connect")
    client.write_dump(str(folder / "orders.%p"), dd.DumpType.MINI)
    print(*(path.read_text("utf-8") for path in folder.glob("orders.*")))
    try:
        client.write_dump(str(folder / "all"), dd.DumpType.FULL)
    except dd.ServerError as error:
        print(error)
    client.enable_perf_map()
