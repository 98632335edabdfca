"""A web application whose requests fail: with which exception, as the requests and the messages tell."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.live.compiling import compiled
from tests.live.runtimes import command

import dotnetdiag as dd

pytestmark = pytest.mark.live
ROUNDS = 5
FAILING = """
using System;
using System.Linq;
using System.Net.Http;
using System.Threading.Tasks;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.Extensions.Logging;

class OutOfStock : Exception { public OutOfStock(string text) : base(text) { } }

static class Program
{
    static async Task Sell() { await Task.Delay(1); throw new OutOfStock("none of 7 is left"); }

    static async Task Main()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.WebHost.UseUrls("http://127.0.0.1:0");
        builder.Logging.ClearProviders().AddEventSourceLogger();
        var app = builder.Build();
        var log = app.Services.GetService(typeof(ILoggerFactory)) as ILoggerFactory;
        app.MapGet("/fine", () => { try { throw new FormatException(); } catch { } return "fine"; });
        app.MapGet("/sell", async () => { await Sell(); return "sold"; });
        app.MapGet("/told", () => {
            log.CreateLogger("Shop").LogError(new InvalidOperationException("asked to"), "order {Id} is lost", 7);
            return "told";
        });
        await app.StartAsync();
        using var client = new HttpClient { BaseAddress = new Uri(app.Urls.First()) };
        for (int at = 0; at < ROUNDS; at++)
            foreach (var path in new[] { "/fine", "/sell", "/told" }) await client.GetAsync(path);
        await app.StopAsync();
    }
}
""".replace("ROUNDS", str(ROUNDS))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(FAILING, tmp_path_factory.mktemp("failing"), "failing", is_aspnet=True)


def recorded(program: Path, preset: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    words, environment = command("10")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    path = program.parent / f"{preset}.nettrace"
    dd.collect(output=path, command=[words[0], str(program)], preset=preset)
    return path


def test_requests_say_what_was_thrown_in_them(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dd.requests(recorded(program, "requests", monkeypatch))
    served = {row["route"]: row for row in made.by_route.to_pylist() if row["kind"] == "server"}
    assert {route: (row["count"], row["failed"]) for route, row in served.items()} == {
        "GET /fine": (ROUNDS, 0),
        "GET /sell": (ROUNDS, ROUNDS),
        "GET /told": (ROUNDS, 0),
    }
    assert (served["GET /sell"]["failure"], served["GET /sell"]["exception"]) == (
        "status 500",
        "OutOfStock: none of 7 is left",
    )
    assert served["GET /sell"]["exceptions"] >= ROUNDS, "each await throws it again"
    assert (served["GET /fine"]["exceptions"], served["GET /fine"]["exception"]) == (ROUNDS, None)
    assert served["GET /told"]["exceptions"] == 0
    rows = [row for row in made.requests.to_pylist() if row["kind"] == "server" and row["exceptions"]]
    assert Counter(row["exception"].partition(":")[0] for row in rows) == {
        "OutOfStock": ROUNDS,
        "System.FormatException": ROUNDS,
    }


def test_messages_say_which_exception_they_were_logged_with(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(program, "logs", monkeypatch)
    made = dd.logs(path)
    rows = [row for row in made.messages.to_pylist() if row["exception"] is not None]
    assert Counter((row["logger"], row["exception_type"], row["request"]) for row in rows) == {
        ("Shop", "System.InvalidOperationException", "GET /told"): ROUNDS,
        ("Microsoft.AspNetCore.Server.Kestrel", "OutOfStock", "GET /sell"): ROUNDS,
    }
    (first, *_) = [row for row in rows if row["logger"] == "Shop"]
    assert (first["message"], first["exception"]) == ("order 7 is lost", "System.InvalidOperationException: asked to")
    (thrown, *_) = [row for row in rows if row["exception_type"] == "OutOfStock"]
    assert thrown["exception"].startswith("OutOfStock: none of 7 is left\n   at Program.Sell()")
    failed = {row["route"]: row["failed"] for row in dd.requests(path).by_route.to_pylist() if row["kind"] == "server"}
    assert failed == {"GET /fine": 0, "GET /sell": ROUNDS, "GET /told": 0}, "their statuses are in these messages too"
