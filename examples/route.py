"""Stand between a process and its tools: python route.py PID."""

import sys

import dotnetdiag as dd

(process,) = (one for one in dd.processes() if one.pid == int(sys.argv[1]))
with dd.Router(
    tools="./tools,listen", runtimes=f"{process.address},connect", on_event=lambda event: print(event.text)
) as router:
    print(router.description)
    client = dd.Client.connect("./tools,connect")  # or any tool: dotnet-trace collect --diagnostic-port ./tools,connect
    print(client.process_info().command_line)
    print(router.status())
