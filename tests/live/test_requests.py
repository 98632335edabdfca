"""Requests whose number, routes and failures are known, of a web server and of clients."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.live.compiling import compiled
from tests.live.recorded import record
from tests.live.runtimes import CACHE, command, unpack

import dotnetdiag as dd
from dotnetdiag.client import Client
from dotnetdiag.providers.presets import find_preset
from dotnetdiag.providers.text import format_providers

pytestmark = pytest.mark.live

ACTIVITIES = "System.Threading.Tasks.TplEventSource:0x80:4"
CLIENT = f"System.Net.Http,System.Net.NameResolution,System.Net.Sockets,{ACTIVITIES}"
SERVER = (
    f"Microsoft.AspNetCore.Hosting,Microsoft-AspNetCore-Server-Kestrel,Microsoft-Extensions-Logging:4:4,{CLIENT},"
    "Microsoft-DotNETCore-SampleProfiler,Microsoft-Windows-DotNETRuntime:0x14001:5"
)
REQUESTS = 40
SLOW_MS = 50


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ten requests to itself eight are fine, one waits for 50 ms, and one fails."""
    unpack()
    path = tmp_path_factory.mktemp("web") / "web.nettrace"
    environment = {"DOTNET_ROOT": str(CACHE / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    words = [str(CACHE / "dotnet" / "dotnet"), str(CACHE / "workload" / "web" / "web.dll")]
    with subprocess.Popen(
        [*words, "wait=stdin", "linger=stdin", f"requests={REQUESTS}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(b"ready")
            with Client(process.pid).trace(SERVER) as session:
                process.stdin.write(b"\n")
                process.stdin.flush()
                assert process.stdout.readline() == b"done web ok=32 slow=4 failed=4\n"
                session.stop()
                path.write_bytes(b"".join(session))
        finally:
            process.kill()
    return path


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_the_preset_of_the_question_records_what_it_needs(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "http.nettrace"
    providers = format_providers(find_preset("requests").providers)
    assert record(runtime, path, providers, "http", "rounds=20") == {"requests": "20", "errors": "2"}
    made = dd.requests(path)
    assert made.totals.by_kind["client"] == 20
    assert made.totals.failed == 2
    assert made.notes == ()


def test_the_requests_that_came_in(web: Path) -> None:
    made = dd.requests(web)
    assert made.notes == ()
    assert {name: made.totals.by_kind[name] for name in ("server", "kestrel", "client")} == {
        "server": REQUESTS,
        "kestrel": REQUESTS,
        "client": REQUESTS,
    }
    routes = {row["route"]: row for row in made.by_route.to_pylist() if row["kind"] == "server"}
    assert {name: (row["count"], row["failed"]) for name, row in routes.items()} == {
        "GET /items/*": (32, 0),
        "GET /slow": (4, 0),
        "GET /fail": (4, 4),
    }
    assert routes["GET /slow"]["median_ms"] >= SLOW_MS - 1
    assert routes["GET /items/*"]["median_ms"] < SLOW_MS
    rows = made.requests.to_pylist()
    statuses = [row["status"] for row in rows if row["kind"] == "server"]
    assert sorted(statuses) == [200] * 36 + [500] * 4
    # the client's failures are the same, by its own events
    assert sum(row["status"] == 500 for row in rows if row["kind"] == "client") == 4
    assert made.totals.failed == 8


def test_what_is_within_what(web: Path) -> None:
    rows = dd.requests(web).requests.to_pylist()
    for row in rows:
        if row["kind"] == "kestrel":
            above = rows[row["parent"]]
            assert (above["kind"], above["name"]) == ("server", row["name"])
        if row["kind"].startswith("client "):
            assert rows[row["parent"]]["kind"] == "client"
        if row["parent"] is not None:
            above = rows[row["parent"]]
            assert above["depth"] == row["depth"] - 1
            assert above["start_ms"] <= row["start_ms"]
    assert sum(row["kind"] == "connect" for row in rows) == 1
    assert rows[next(at for at, row in enumerate(rows) if row["kind"] == "connect")]["name"].startswith("127.0.0.1:")


def test_what_requests_spend(web: Path) -> None:
    trace = dd.open(web)
    made = dd.requests(trace)
    rows = made.requests.to_pylist()
    ticks = sum(trace["GC/AllocationTick"].numpy("payload.AllocationAmount64").tolist())
    top = [row for row in rows if row["parent"] is None]
    assert 0 < sum(row["allocated_bytes"] for row in top) <= ticks
    # the client may have its answer, and end the recording, before the server has told the end of the last request
    assert sum(row["duration_ms"] is None for row in rows) <= 2
    for row in rows:
        assert row["duration_ms"] is None or row["gc_ms"] <= row["duration_ms"] + 1e-6
        if row["parent"] is not None:
            assert row["allocated_bytes"] <= rows[row["parent"]]["allocated_bytes"]
            assert row["cpu_ms"] <= rows[row["parent"]]["cpu_ms"] + 1e-6
    assert sum(row["cpu_ms"] for row in top) > 0


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_the_requests_that_went_out(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "http.nettrace"
    assert record(runtime, path, CLIENT, "http", "rounds=20") == {"requests": "20", "errors": "2"}
    made = dd.requests(path)
    (route,) = [row for row in made.by_route.to_pylist() if row["kind"] == "client"]
    assert (route["count"], route["failed"]) == (20, 2)
    assert route["route"].endswith("/items/*")
    rows = [row for row in made.requests.to_pylist() if row["kind"] == "client"]
    assert [row["name"].rpartition("/")[2] for row in rows] == [str(number) for number in range(20)]
    assert [row["status"] for row in rows] == [500 if number % 10 == 9 else 200 for number in range(20)]
    assert made.totals.by_kind["connect"] >= 1


COMMANDS = """
using System;
using System.Diagnostics;
using System.Threading;
class Command { public string CommandText { get; set; } public Connection Connection { get; set; } }
class Connection { public string Database { get; set; } public string DataSource { get; set; } }
class Program
{
    static readonly DiagnosticSource source = new DiagnosticListener("SqlClientDiagnosticListener");
    static void Main()
    {
        for (int i = 0; i < 10; i++)
        {
            var command = new Command { CommandText = "select c" + (i % 2), Connection = new Connection { Database = "shop", DataSource = "db1" } };
            source.Write("Microsoft.Data.SqlClient.WriteCommandBefore", new { Command = command, ConnectionId = 1 });
            Thread.Sleep(i % 2 == 0 ? 5 : 20);
            if (i == 9)
                source.Write("Microsoft.Data.SqlClient.WriteCommandError", new { Command = command, Exception = new Exception("timeout expired") });
            else
                source.Write("Microsoft.Data.SqlClient.WriteCommandAfter", new { Command = command });
        }
    }
}
"""
"""What a client of SQL Server tells, without a server."""


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_commands_of_databases_are_requests(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "sql.nettrace"
    dd.collect(output=path, command=[*words[:-1], str(compiled(COMMANDS, tmp_path, "sql"))], preset="database")
    made = dd.requests(path)
    assert made.totals.by_kind == {"sql": 10}
    assert (made.totals.unfinished, made.totals.failed) == (0, 1)
    assert made.requests.values("failure") == [None] * 9 + ["timeout expired"]
    medians = {row["route"]: row["median_ms"] for row in made.by_route.to_pylist()}
    assert medians.keys() == {"select c0 shop db1", "select c1 shop db1"}
    assert 5 <= medians["select c0 shop db1"] < 20 <= medians["select c1 shop db1"]


EXECUTED = """
using System.Diagnostics.Tracing;
using System.Threading;
using System.Threading.Tasks;
[EventSource(Name = "Microsoft.Data.SqlClient.EventSource")]
class SqlClientEventSource : EventSource
{
    public static readonly SqlClientEventSource Log = new SqlClientEventSource();
    public static class Keywords { public const EventKeywords ExecutionTrace = (EventKeywords)1; }
    public static class Tasks { public const EventTask ExecuteCommand = (EventTask)1; }
    [Event(1, Keywords = Keywords.ExecutionTrace, Task = Tasks.ExecuteCommand, Opcode = EventOpcode.Start)]
    public void BeginExecute(int objectId, string dataSource, string database, string commandText, string message)
    { WriteEvent(1, objectId, dataSource, database, commandText, message); }
    [Event(2, Keywords = Keywords.ExecutionTrace, Task = Tasks.ExecuteCommand, Opcode = EventOpcode.Stop)]
    public void EndExecute(int objectId, int compositestate, int sqlExceptionNumber, string message)
    { WriteEvent(2, objectId, compositestate, sqlExceptionNumber, message); }
}
class Program
{
    static async Task Execute(int number, int ms)
    {
        SqlClientEventSource.Log.BeginExecute(number, "db1", "shop", "select c" + number, "m");
        await Task.Delay(ms);
        SqlClientEventSource.Log.EndExecute(number, number == 2 ? 4 : 5, number == 2 ? 1205 : 0, "m");
    }
    static void Main()
    {
        Execute(0, 5).Wait();
        Task.WaitAll(Task.Run(() => Execute(1, 200)), Task.Run(() => Execute(2, 40)));
    }
}
"""
"""What the EventSource of a client of SQL Server declares, and says."""


@pytest.mark.parametrize("has_ids", [True, False])
@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_commands_of_the_clients_event_source_are_requests(
    runtime: str, has_ids: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "sql.nettrace"
    providers = "Microsoft.Data.SqlClient.EventSource:0x1:4" + (f",{ACTIVITIES}" if has_ids else "")
    dd.collect(output=path, command=[*words[:-1], str(compiled(EXECUTED, tmp_path, "sql"))], providers=providers)
    made = dd.requests(path)
    rows = sorted(made.requests.to_pylist(), key=lambda row: str(row["name"]))
    assert [row["name"] for row in rows] == [f"db1 shop select c{number}" for number in range(3)]
    assert rows[0]["duration_ms"] >= 4
    if has_ids:
        assert [row["failure"] for row in rows] == [None, None, "error 1205"]
        assert rows[1]["duration_ms"] >= 150 > rows[2]["duration_ms"] >= 30
    else:
        assert made.totals.unknown == 2


FAILING = """
using System;
using System.Net;
using System.Net.Http;
using System.Net.Sockets;
class Program
{
    static void Main()
    {
        int free; using (var one = new Socket(SocketType.Stream, ProtocolType.Tcp))
        { one.Bind(new IPEndPoint(IPAddress.Loopback, 0)); free = ((IPEndPoint)one.LocalEndPoint).Port; }
        using var client = new HttpClient();
        try { client.GetStringAsync("http://127.0.0.1:" + free + "/a").Wait(); } catch (AggregateException) { }
        try { Dns.GetHostEntry("none.invalid"); } catch (SocketException) { }
    }
}
"""


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_what_a_client_fails_to_do_has_failed(runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command(runtime)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "failing.nettrace"
    dd.collect(output=path, command=[*words[:-1], str(compiled(FAILING, tmp_path, "failing"))], providers=CLIENT)
    failed = {row["kind"]: row["failed"] for row in dd.requests(path).by_route.to_pylist()}
    assert failed == {"client": 1, "connect": 1, "dns": 1}


SECURED = """
using System;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
class Program
{
    static async Task Main()
    {
        using var key = RSA.Create(2048);
        var wanted = new CertificateRequest("CN=localhost", key, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        var own = wanted.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(5));
        var builder = WebApplication.CreateBuilder(new string[0]);
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options => options.Listen(IPAddress.Loopback, 0, port => port.UseHttps(own)));
        var app = builder.Build();
        await app.StartAsync();
        var address = app.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>().Addresses.First();
        using (var client = new TcpClient())
        {
            await client.ConnectAsync("127.0.0.1", new Uri(address).Port);
            await client.GetStream().WriteAsync(Encoding.ASCII.GetBytes("GET / HTTP/1.1\\r\\n\\r\\n"));
            try { while (await client.GetStream().ReadAsync(new byte[100]) > 0) { } } catch { }
        }
        await app.StopAsync();
    }
}
"""
"""Whoever speaks plain HTTP to a port of HTTPS."""


def test_a_handshake_that_fails_at_the_server_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words, environment = command("10")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    program = compiled(SECURED, tmp_path, "secured", is_aspnet=True)
    path = tmp_path / "secured.nettrace"
    providers = f"Microsoft-AspNetCore-Server-Kestrel,System.Net.Security,{ACTIVITIES}"
    dd.collect(output=path, command=[words[0], str(program)], providers=providers)
    failed = {row["route"]: row["failed"] for row in dd.requests(path).by_route.to_pylist() if row["kind"] == "tls"}
    assert failed["server"] == 1  # of Kestrel, which tells no reason
    assert sum(failed.values()) == 2
