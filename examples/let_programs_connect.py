"""Record every .NET program that dials a port, from its first instruction: python let_programs_connect.py ADDRESS HOW_MANY."""

import itertools
import sys
import threading

import dotnetdiag as dd


def record(runtime: dd.ConnectedRuntime) -> None:
    info, path = runtime.info, f"program-{runtime.info.pid}.nettrace"
    with runtime.client.trace("Microsoft-Windows-DotNETRuntime:Loader:Informational", duration="2s") as session:
        runtime.resume()  # until then it waits at its start
        session.save(path)
    loaded = len(dd.open(path)["Loader/AssemblyLoad"])
    print(f"{path}: {info.entry_assembly or info.command_line} has loaded {loaded} assemblies")


with dd.listen(sys.argv[1]) as server:
    recordings = []
    for runtime in itertools.islice(server, int(sys.argv[2])):  # for ever: for runtime in server
        recordings.append(threading.Thread(target=record, args=(runtime,)))
        recordings[-1].start()
    for recording in recordings:
        recording.join()
