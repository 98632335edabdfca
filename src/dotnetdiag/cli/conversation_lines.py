"""What tools and runtimes say, as lines: of a tap, and of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo, json_text

if TYPE_CHECKING:
    from dotnetdiag.recipes.decoding import ExplainedField, Heard

LONGEST_VALUE = 200
MOST_NUMBERS = 16
HEADER_FIELDS = 4
ARROWS = {"tool": "tool -> runtime", "runtime": "runtime -> tool", None: "?"}
KINDS = {
    "ok": "OK to",
    "error": "Error to",
    "stream": "stream begins:",
    "stream end": "stream ends:",
    "bytes": "bytes of no message",
}

UNNAMED = {"ok": "what was not seen", "error": "what was not seen", "stream": "?", "stream end": "?"}


def show_heard(heard: Heard, *, as_json: bool, header: bool = False) -> None:
    """A message: its line and those of its fields, or an object of JSON on one line. ``header``: the fields of its header too."""
    if as_json:
        json_text(heard.to_dict(), indent=None)
        return
    message = heard.message
    row = heard.to_dict()
    time = "" if heard.time_s is None else f"{str(row['time'])[11:-1]}  "
    sender = None if message.sender is None else message.sender.value
    what = f"{KINDS.get(message.kind, message.kind)} {message.name or UNNAMED.get(message.kind, '')}".rstrip()
    echo(f"{time}#{heard.connection}  {ARROWS[sender]}  {what}, {message.size} bytes at {message.offset}")
    has_header = message.kind in ("request", "ok", "error") or (message.kind == "bytes" and not message.fields[:1])
    for field in message.fields[0 if header or not has_header else HEADER_FIELDS :]:
        echo(f"    {field.offset:6}  {field.type:<10}  {field.name} = {value_text(field)}")
    for problem in message.problems:
        echo(f"    ! {problem}")


def value_text(field: ExplainedField) -> str:
    """A value for people: long ones are cut, and say so."""
    value = field.value
    if isinstance(value, tuple):
        text = ", ".join(map(str, value[:MOST_NUMBERS]))
        text = f"[{text}]" if len(value) <= MOST_NUMBERS else f"[{text}, … {len(value)} in all]"
    elif isinstance(value, str) and field.type == "string":
        text = repr(value) if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]!r}… {len(value)} characters"
    elif isinstance(value, str):
        text = value if len(value) <= LONGEST_VALUE else f"{value[:LONGEST_VALUE]}… {field.size} bytes"
    elif value is None:
        text = "null"
    elif field.name == "hr" and isinstance(value, int):
        text = f"0x{value:08X}"
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text} ({field.meaning})" if field.meaning else text
