"""A client of the diagnostic protocol, tested without .NET: python without_dotnet.py app.nettrace."""

import sys
from pathlib import Path

import dotnetdiag as dd
from dotnetdiag.errors import ServerError
from dotnetdiag.testing import Runtime

recording = sys.argv[1]

with (
    Runtime("9.0", listen="runtime.sock", name="shop", replay=recording, waits=True) as runtime,
    dd.Client.connect("runtime.sock,connect") as client,
):
    assert client.process_info().entry_assembly == "shop"

    with client.trace("Microsoft-Windows-DotNETRuntime:GC:4", duration="100ms") as session:
        session.save("copy.nettrace")
    assert Path("copy.nettrace").read_bytes() == Path(recording).read_bytes()

    runtime.misbehave("GenerateCoreDump3", "error:0x80004005")  # as a runtime whose disk is full
    try:
        client.write_dump("/dumps/core")
    except ServerError as error:
        print(error)

    print(*(asked.command for asked in runtime.asked))
