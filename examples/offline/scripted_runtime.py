"""A client of the diagnostic protocol, and a runtime that does what a test wants: python scripted_runtime.py."""

import dotnetdiag as dd
from dotnetdiag.errors import TimedOut
from dotnetdiag.testing import Runtime, Talk


def trickles(talk: Talk) -> None:
    """A session that sends a byte now and then until StopTracing comes, and then its end."""
    talk.begin_session(b"Nettrace")  # OK, an id, and the first bytes of the stream
    while not talk.wait_for_stop(0.01):
        talk.send(b".")
    talk.send(b"the end")  # StopTracing is answered when this script returns


def hangs(talk: Talk) -> None:
    """Half an answer, and nothing more until the client gives up."""
    talk.send(b"DOTNET_IPC_V1\0")
    talk.wait_until_hung_up()


with (
    Runtime("9.0", listen="scripted.sock", scripts={"CollectTracing2": trickles}) as runtime,
    dd.Client.connect("scripted.sock,connect", timeout_s=0.5) as client,
):
    with client.trace("My-Provider", duration="100ms") as session:
        session.save("scripted.nettrace")
    with open("scripted.nettrace", "rb") as file:
        data = file.read()
    assert data.startswith(b"Nettrace.")
    assert data.endswith(b".the end")

    runtime.play("ProcessInfo3", hangs)
    try:
        client.process_info()
    except TimedOut as error:
        print(error)

    runtime.wait_until_idle()  # raises TimedOut where the client has left a connection open
    print(*(asked.command for asked in runtime.asked))
