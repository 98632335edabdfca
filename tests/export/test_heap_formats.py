"""Heaps in the formats of others: what they hold is the graph, and their own readers take it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow.parquet
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from tests.export.browser import Page, running
from tests.heap.help import heap_of
from tests.heap.made import heap_from, made, two_of_one_name
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import UsageError
from dotnetdiag.events.columns import Text
from dotnetdiag.export.heap_formats import HEAP_FORMATS, heap_format, heap_format_of
from dotnetdiag.heap import Completeness, Heap, HeapFacts
from dotnetdiag.heap.holders import is_pseudo_node

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    "a & b \x00 \ud800 \u2028",
    "__proto__",
]


def written(heap: Heap, name: str, part: str | None = None) -> bytes:
    file = io.BytesIO()
    heap_format(name).write(heap, file, part)
    return file.getvalue()


def hostile() -> Heap:
    heap = heap_from(["[.NET Roots]", *HOSTILE], [(number, number + 1) for number in range(4)])
    facts = HeapFacts(process="</title><script>window.hacked=3</script>", pid=7)
    return replace(heap, facts=facts, completeness=Completeness(problems=("<b onclick=window.hacked=4>",)))


@pytest.fixture(scope="module")
def real() -> Heap:
    return heap_of(data_of("heap-10.nettrace"))


def test_the_format_is_that_of_the_end_of_a_name() -> None:
    assert [heap_format_of(f"a.b{one.suffix}").name for one in HEAP_FORMATS.values()] == list(HEAP_FORMATS)
    with pytest.raises(UsageError, match="no format of heaps ends so"):
        heap_format_of("x.pdf")


# heapsnapshot ---------------------------------------------------------------------------------------------------------


def snapshot(heap: Heap) -> tuple[list[list[int]], list[list[int]], list[str]]:
    """(nodes, edges, strings), after what DevTools' loader asks of them."""
    said = json.loads(written(heap, "heapsnapshot"))
    meta = said["snapshot"]["meta"]
    wide, thin = len(meta["node_fields"]), len(meta["edge_fields"])
    assert len(said["nodes"]) == wide * said["snapshot"]["node_count"]
    assert len(said["edges"]) == thin * said["snapshot"]["edge_count"]
    nodes = np.array(said["nodes"]).reshape(-1, wide).tolist()
    edges = np.array(said["edges"], np.int64).reshape(-1, thin).tolist()
    fields = meta["node_fields"]
    assert (fields[0], fields[1], fields[3], fields[4]) == ("type", "name", "self_size", "edge_count")
    assert sum(node[4] for node in nodes) == len(edges)
    assert len({node[2] for node in nodes}) == len(nodes)
    assert all(0 <= node[0] < len(meta["node_types"][0]) and 0 <= node[1] < len(said["strings"]) for node in nodes)
    assert all(to % wide == 0 and 0 <= to < len(said["nodes"]) for _, _, to in edges)
    return nodes, edges, said["strings"]


def test_a_heapsnapshot_has_every_node_and_reference_and_begins_with_the_root(real: Heap) -> None:
    nodes, edges, strings = snapshot(real)
    assert strings[nodes[0][1]] == "[.NET Roots]"
    counts = Counter(strings[node[1]] for node in nodes)
    ours = Counter(real.type_of(node) for node in range(real.nodes))
    assert counts == ours
    assert sum(node[3] for node in nodes) == real.bytes
    pairs: Counter[tuple[str, str]] = Counter()
    at = 0
    for node in nodes:
        for _, place, to in edges[at : at + node[4]]:
            assert place >= 0
            pairs[strings[node[1]], strings[nodes[to // 7][1]]] += 1
        at += node[4]
    assert pairs == Counter(
        (real.type_of(node), real.type_of(target)) for node in range(real.nodes) for target in real.references(node)
    )


def test_a_heapsnapshot_of_hostile_names_is_json() -> None:
    *_, strings = snapshot(hostile())
    assert set(HOSTILE[:2]) <= set(strings)


# graphs and tables ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heap", [made(), hostile()], ids=["made", "hostile"])
def test_graphml_is_read_back_by_networkx(heap: Heap) -> None:
    graph = networkx.read_graphml(io.BytesIO(written(heap, "graphml")), force_multigraph=True)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (heap.nodes, heap.edges)
    for node in range(heap.nodes):
        found = graph.nodes[f"n{node}"]
        assert found["bytes"] == int(heap.node_size[node])
        assert int(found["address"], 16) == int(heap.node_address[node])
        assert found["type"] == re.sub("[\x00\ud800]", "\ufffd", heap.type_of(node))
    ours = {(f"n{node}", f"n{target}") for node in range(heap.nodes) for target in heap.references(node)}
    assert {(edge[0], edge[1]) for edge in graph.edges} == ours
    assert graph.graph.get("problems", "") == "\n".join(heap.completeness.problems)


def test_parquet_and_sqlite_have_the_three_tables(real: Heap, tmp_path: Path) -> None:
    tables = {
        part: pyarrow.parquet.read_table(io.BytesIO(written(real, "parquet", part)))
        for part in HEAP_FORMATS["parquet"].parts
    }
    assert [tables[name].num_rows for name in ("nodes", "edges")] == [real.nodes, real.edges]
    path = tmp_path / "x.sqlite"
    path.write_bytes(written(real, "sqlite"))
    with sqlite3.connect(path) as database:
        rows = database.execute(
            "select type, count(*), sum(n.bytes) from nodes n join types using (type_id) group by type_id order by 3 desc, 2 desc"
        ).fetchall()
    ours = [(row["type"], row["count"], row["bytes"]) for row in real.types]
    assert sorted(row for row in rows if row[0] != "UNDEFINED") == sorted(ours)
    assert tables["types"].column("retained_bytes").to_pylist() == real.retained_by_type.tolist()


def test_a_database_has_every_address_as_a_number_and_says_what_is_missing(tmp_path: Path) -> None:
    addresses = np.array([0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1], np.uint64)
    heap = replace(made(), node_address=addresses, completeness=Completeness(problems=("a", "b")))
    path = tmp_path / "x.sqlite"
    path.write_bytes(written(heap, "sqlite"))
    with sqlite3.connect(path) as database:
        rows = database.execute("select printf('%x', address), typeof(address) from nodes order by node").fetchall()
        assert rows == [(f"{address:x}", "integer") for address in addresses.tolist()]
        assert database.execute("select node from nodes where address = 0x8000000000000000").fetchall() == [(3,)]
        assert database.execute("select problem from problems").fetchall() == [("a",), ("b",)]
    path.write_bytes(written(made(), "sqlite"))
    with sqlite3.connect(path) as database:
        assert database.execute("select count(*) from sqlite_master where type = 'table'").fetchone() == (3,)


def test_a_heapsnapshot_has_sizes_without_a_sign() -> None:
    sizes = np.array([1 << 63, (1 << 64) - 1, 3, 4, 5], np.uint64)
    nodes = json.loads(written(replace(made(), node_size=sizes), "heapsnapshot"))["nodes"]
    assert nodes[3::7] == sizes.tolist()
    assert replace(made(), node_size=sizes).bytes == sum(sizes.tolist())


def test_sql_asks_the_three_tables(real: Heap) -> None:
    (row,) = real.sql("select count(*) as n, sum(bytes) as b from nodes").to_pylist()
    assert (row["n"], row["b"]) == (real.nodes, real.bytes)
    (row,) = real.sql(
        "select t.type from edges e join nodes n on n.node = e.target join types t using (type_id) group by all order by count(*) desc limit 1"
    ).to_pylist()
    assert row["type"] in real.types.values("type")
    assert real.sql("from nodes where dominator is null").to_pylist()[0]["node"] is not None
    (row,) = real.sql("select interval 1 day as d, count(*) as n from nodes").to_pylist()
    assert row == {"d": "1 day", "n": real.nodes}
    for query in ("", "select nothing from nodes", "from read_csv('/etc/hosts')"):
        with pytest.raises(UsageError):
            real.sql(query)


# the page -------------------------------------------------------------------------------------------------------------


def data_in(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    assert found[1].isascii()
    assert "<" not in found[1]
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_page_lets_its_own_script_run_and_nothing_else() -> None:
    page = written(hostile(), "html").decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy[1].startswith(f"default-src 'none'; script-src 'sha256-{digest}';")
    assert "http" not in re.sub(r"<style>.*?</style>", "", page.partition("<body>")[0], flags=re.DOTALL).replace(
        "http-equiv", ""
    )


def test_ways_on_the_page_are_of_one_type_whatever_it_is_named() -> None:
    """Two types of one name, and one that is named as an address is."""
    heap = two_of_one_name("HolderA", 100, 60)
    names = ["0x10" if name == "HolderC" else name for name in heap.type_name.to_pylist()]
    data = data_in(written(replace(heap, type_name=Text.from_pylist(names)), "html").decode())
    keys = list(zip(data["types"]["name"], data["types"]["module"], strict=True))
    ways = {keys[int(number)]: [(way["count"], way["path"]) for way in its] for number, its in data["paths"].items()}
    assert ways["Foo", "a.dll"] == [(100, ["[.NET Roots]", "HolderA", "Foo"])]
    assert ways["Foo", "b.dll"] == [(60, ["[.NET Roots]", "HolderB", "Foo"])]
    assert ways["0x10", "app.dll"] == [(1, ["[.NET Roots]", "0x10"])]


def test_the_tree_of_the_page_is_that_of_the_heap(real: Heap) -> None:
    data = data_in(written(real, "html").decode())
    tree, names = data["tree"], data["types"]["name"]
    assert names[tree["type"][0]] == "[.NET Roots]"
    assert tree["retained"][0] == int(real.retained[real.root])
    assert all(parent < place for place, parent in enumerate(tree["parent"]))
    assert all(
        parent < 0 or tree["retained"][place] <= tree["retained"][parent] for place, parent in enumerate(tree["parent"])
    )
    order = [names[number] for number in data["types"]["order"]]
    assert order == [name for name in real.types.values("type") if not is_pseudo_node(name)]


@pytest.fixture(scope="module")
def driver() -> Iterator[webdriver.Chrome]:
    with running() as driver:
        yield driver


@pytest.fixture
def browser(driver: webdriver.Chrome) -> Iterator[Page]:
    """Afterwards nothing was said on the console and nothing was asked of a network."""
    driver.get("about:blank")
    made = Page(driver)
    made.collect()
    made.problems, made.requests = [], []
    yield made
    made.collect()
    assert made.problems == []
    assert [url for url in made.requests if not url.startswith("file://")] == []


def boxes(page: Page) -> list[str]:
    return [
        one.get_attribute("aria-label") or "" for one in page.driver.find_elements(By.CSS_SELECTOR, "#chart button")
    ]


def test_one_of_a_thing_is_told_in_the_singular() -> None:
    heap = heap_from(["Root", "A"], [(0, 1)], sizes=[0, 1])
    assert '"facts":["1 byte","2 objects","1 reference"]' in written(heap, "html").decode()


def test_a_click_zooms_a_search_finds_and_a_type_shows_why_it_is_alive(
    browser: Page, real: Heap, tmp_path: Path
) -> None:
    path = tmp_path / "heap.html"
    path.write_bytes(written(real, "html"))
    browser.open(path)
    assert boxes(browser)[0].startswith("[.NET Roots]: 1 object, 0 bytes, keeps ")
    before = len(boxes(browser))
    node = next(
        one
        for one in browser.driver.find_elements(By.CSS_SELECTOR, "#chart button")
        if "Workload.Node:" in (one.get_attribute("aria-label") or "")
    )
    browser.run("arguments[0].click()", node)
    assert "Workload.Node" in browser.text("#box")
    assert len(boxes(browser)) < before
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert "Workload.Node:" not in browser.text("#box")
    browser.run("document.getElementById('reset').click()")
    assert len(boxes(browser)) == before
    browser.driver.find_element(By.ID, "search").send_keys("workload.ring")
    assert browser.text("#said") == "1 type matches"
    assert "Workload.Ring" in browser.text("#rows")
    assert "System.String" not in browser.text("#rows")
    browser.driver.find_element(By.ID, "search").send_keys("s of nothing")
    assert browser.text("#said") == "0 types match"
    browser.driver.find_element(By.ID, "search").clear()
    browser.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    row = next(
        one for one in browser.driver.find_elements(By.CSS_SELECTOR, "#rows button") if one.text == "Workload.Node"
    )
    browser.run("arguments[0].click()", row)
    assert "Why Workload.Node is alive" in browser.text("#ways")
    assert "[static var Workload.Node.list]" in browser.text("#list")


def test_hostile_names_are_text_in_the_browser(browser: Page, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_bytes(written(hostile(), "html"))
    browser.open(path)
    assert browser.value("window.hacked === undefined")
    assert any(HOSTILE[0] in box for box in boxes(browser))
    assert HOSTILE[1] in browser.text("#rows")
    for button in browser.driver.find_elements(By.CSS_SELECTOR, "#rows button"):
        browser.run("arguments[0].click()", button)
    assert browser.value("window.hacked === undefined && document.querySelectorAll('img').length === 0")
    assert "<script>" in browser.text("#title")
