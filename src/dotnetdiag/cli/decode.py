"""``decode``: captured bytes of the protocol, explained."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.conversation_lines import show_heard
from dotnetdiag.cli.files import RecordingPath


@click.command(cls=Command)
@click.argument("file", type=RecordingPath())
@click.option(
    "--port", type=int, metavar="PORT", help="Of a capture: the connections of this TCP port, whatever they say."
)
@click.option("--header", is_flag=True, help="The fields of each message's header too.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
def decode(file: Path, port: int | None, header: bool, as_json: bool) -> None:
    """Explain captured bytes of the Diagnostic IPC protocol: each message with its fields, where they stand, and what is wrong with it.

    FILE is a text with hex (plain, with colons, of xxd, hexdump -C, od -t x1 or Wireshark, or a document with examples), the bytes
    themselves, or a capture of TCP (pcap, pcapng: `pip install 'dotnetdiag[pcap]'`); - is standard input. The bytes of a session's
    stream are counted.

    \b
    echo 444f544e45545f4950435f563100140004080000 | dotnetdiag decode -
    dotnetdiag decode port-9000.pcap --json | jq .name
    """
    from dotnetdiag.recipes.decoding import decode as decoded

    for heard in decoded(file, port=port):
        show_heard(heard, as_json=as_json, header=header)
