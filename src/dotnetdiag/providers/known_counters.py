"""EventSources that are known to have EventCounters, and what these count: a runtime does not list them, each has to be asked by its name.

From the documentation of .NET, ASP.NET Core, Entity Framework Core, SqlClient and gRPC. A counter that is not here is shown by the name that it
gives itself.
"""

from __future__ import annotations

from collections.abc import Mapping

_RUNTIME = {
    "cpu-usage": "processor time of the process, of all processors together",
    "working-set": "physical memory of the process",
    "gc-heap-size": "bytes on the managed heap that are believed to be in use",
    "gen-0-gc-count": "collections of generation 0",
    "gen-1-gc-count": "collections of generation 1",
    "gen-2-gc-count": "collections of generation 2",
    "time-in-gc": "time in collections since the last one",
    "gen-0-size": "bytes in generation 0",
    "gen-1-size": "bytes in generation 1",
    "gen-2-size": "bytes in generation 2",
    "loh-size": "bytes in the large object heap",
    "poh-size": "bytes in the pinned object heap",
    "alloc-rate": "bytes that are allocated",
    "gc-fragmentation": "share of the heap that lies between objects",
    "gc-committed": "bytes that the collector has of the system",
    "assembly-count": "assemblies that are loaded",
    "exception-count": "exceptions that are thrown, also those that are caught",
    "threadpool-thread-count": "threads of the thread pool",
    "monitor-lock-contention-count": "times that a thread had to wait for a lock",
    "threadpool-queue-length": "work items that wait for a thread of the pool",
    "threadpool-completed-items-count": "work items that the pool has done",
    "active-timer-count": "timers that are set",
    "il-bytes-jitted": "bytes of IL that were compiled",
    "methods-jitted-count": "methods that were compiled",
    "time-in-jit": "time that compiling took",
}
_TLS = ("tls10", "tls11", "tls12", "tls13")

KNOWN_EVENT_COUNTERS: Mapping[str, Mapping[str, str]] = {
    "System.Runtime": _RUNTIME,
    "Microsoft.AspNetCore.Hosting": {
        "requests-per-second": "requests that began",
        "total-requests": "requests since the start",
        "current-requests": "requests that are worked on",
        "failed-requests": "requests that ended with an error of the server",
    },
    "Microsoft-AspNetCore-Server-Kestrel": {
        "connections-per-second": "connections that were opened",
        "total-connections": "connections since the start",
        "tls-handshakes-per-second": "TLS handshakes",
        "total-tls-handshakes": "TLS handshakes since the start",
        "current-tls-handshakes": "TLS handshakes that are under way",
        "failed-tls-handshakes": "TLS handshakes that failed",
        "current-connections": "connections that are open",
        "connection-queue-length": "connections that wait",
        "request-queue-length": "requests that wait",
    },
    "Microsoft.AspNetCore.Http.Connections": {
        "connections-started": "SignalR connections since the start",
        "connections-stopped": "SignalR connections that ended",
        "connections-timed-out": "SignalR connections that timed out",
        "current-connections": "SignalR connections that are open",
        "connections-duration": "how long they are open, on average",
    },
    "System.Net.Http": {
        "requests-started": "requests since the start",
        "requests-started-rate": "requests that began",
        "requests-failed": "requests that failed since the start",
        "requests-failed-rate": "requests that failed",
        "current-requests": "requests that are under way",
        "http11-connections-current-total": "connections of HTTP/1.1 that are open",
        "http20-connections-current-total": "connections of HTTP/2 that are open",
        "http30-connections-current-total": "connections of HTTP/3 that are open",
        "http11-requests-queue-duration": "how long requests wait for a connection of HTTP/1.1",
        "http20-requests-queue-duration": "how long requests wait for a connection of HTTP/2",
        "http30-requests-queue-duration": "how long requests wait for a connection of HTTP/3",
    },
    "System.Net.NameResolution": {
        "dns-lookups-requested": "look-ups of names since the start",
        "dns-lookups-duration": "how long a look-up takes, on average",
        "current-dns-lookups": "look-ups that are under way",
    },
    "System.Net.Security": {
        "tls-handshake-rate": "TLS handshakes",
        "total-tls-handshakes": "TLS handshakes since the start",
        "current-tls-handshakes": "TLS handshakes that are under way",
        "failed-tls-handshakes": "TLS handshakes that failed",
        "all-tls-sessions-open": "TLS sessions that are open",
        "all-tls-handshake-duration": "how long a handshake takes, on average",
        **{f"{one}-sessions-open": f"sessions of {one[:3].upper()} {one[3]}.{one[4]} that are open" for one in _TLS},
        **{
            f"{one}-handshake-duration": f"how long a handshake of {one[:3].upper()} {one[3]}.{one[4]} takes"
            for one in _TLS
        },
    },
    "System.Net.Sockets": {
        "outgoing-connections-established": "connections to others since the start",
        "incoming-connections-established": "connections of others since the start",
        "current-outgoing-connect-attempts": "connections to others that are under way",
        "bytes-received": "bytes received since the start",
        "bytes-sent": "bytes sent since the start",
        "datagrams-received": "datagrams received since the start",
        "datagrams-sent": "datagrams sent since the start",
    },
    "Microsoft.EntityFrameworkCore": {
        "active-db-contexts": "DbContexts that are not disposed of",
        "total-queries": "queries since the start",
        "queries-per-second": "queries",
        "total-save-changes": "calls of SaveChanges since the start",
        "save-changes-per-second": "calls of SaveChanges",
        "compiled-query-cache-hit-rate": "share of queries that were compiled before",
        "total-execution-strategy-operation-failures": "operations that were tried again, since the start",
        "total-optimistic-concurrency-failures": "changes that met others' since the start",
    },
    "Microsoft.Data.SqlClient.EventSource": {
        "active-hard-connections": "connections to servers that are open",
        "hard-connects": "connections to servers that were opened",
        "hard-disconnects": "connections to servers that were closed",
        "active-soft-connects": "connections that were taken of a pool",
        "soft-connects": "connections that are taken of a pool",
        "soft-disconnects": "connections that are given back to a pool",
        "number-of-active-connections": "connections in use",
        "number-of-free-connections": "connections in pools that nobody uses",
    },
    "Grpc.AspNetCore.Server": {
        "total-calls": "calls since the start",
        "current-calls": "calls that are worked on",
        "calls-failed": "calls that failed since the start",
        "calls-deadline-exceeded": "calls whose deadline passed",
        "messages-sent": "messages sent since the start",
        "messages-received": "messages received since the start",
        "calls-unimplemented": "calls of methods that are not there",
    },
    "Grpc.Net.Client": {
        "total-calls": "calls since the start",
        "current-calls": "calls that are under way",
        "calls-failed": "calls that failed since the start",
        "calls-deadline-exceeded": "calls whose deadline passed",
        "messages-sent": "messages sent since the start",
        "messages-received": "messages received since the start",
    },
}
"""EventSource → counter → what it counts."""
