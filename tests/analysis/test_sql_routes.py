"""Routes of SQL commands."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dotnetdiag.analysis.kept_events import CUT
from dotnetdiag.analysis.request_kinds import routes
from dotnetdiag.analysis.sql_routes import LONGEST, sql_route

NUMBERS = (
    "1",
    "0",
    "123.45",
    "1.",
    ".5",
    "0x1F",
    "0xff",
    "1e5",
    "1.5E+3",
    "3.5e-10",
    "1_000",
    "-7",
    "- 7",
    "+3",
    "-.5",
    *("0b101", "0B1", "0o17", "0x1F_FF", "$5.00", "-$12.5"),
)
TEXTS = (
    *("''", "'a'", "'it''s'", "'-- no comment'", "'/* none */'", "'IN (1'", "N'abc'", "n''", "x'1F'", "B'01'", "U&'d'"),
    *(r"E'a\'b'", r"e'it''s\\'", "$$it's$$", "$tag$ $$ it's $tag$", "'\"'", "'[`'", "'\n'"),
    *("q'[it's mine]'", "Q'(it's)'", "nq'{it's}'", "q'<it's>'", "q'!it's!'", "q'|a'b|'"),
)
TYPED = (
    *("DATE '2026-01-01'", "date'2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00'", "TIMESTAMPTZ '2026-01-01 00:00:00Z'"),
    *("TIMESTAMP WITH TIME ZONE '2026-01-01'", "TIME '10:00'", "INTERVAL '1' DAY", "INTERVAL '1-2' YEAR TO MONTH"),
    *(
        "INTERVAL '5 days'",
        "CAST(1 AS bigint)",
        "CAST(1.5 AS decimal(18,2))",
        "CAST(@p0 AS bigint)",
        "'a'::text",
        "$1::date",
    ),
)
PLACES = (
    "SELECT a FROM t WHERE x={}",
    "SELECT a FROM t WHERE x = {} AND y = 'z'",
    "select a from t2 where {}<b3 or b in ({}, {}) order by c",
    "SELECT {}",
    "SELECT a FROM t WHERE b BETWEEN {} AND {};",
    "SELECT a FROM t LIMIT {},{}",
    "EXEC p @a,{},{}",
    "EXEC dbo.p2 @a = {}, @b={}",
    "INSERT INTO t (a, b) VALUES ({}, {}), ({},{})",
    "UPDATE t SET a={},b= {} WHERE c>={}",
    "SELECT f({}), CASE WHEN a={} THEN {} ELSE {} END FROM t",
)


@pytest.mark.parametrize(
    ("command", "route"),
    [
        ("SELECT a FROM t LIMIT 10,20", "SELECT a FROM t LIMIT *,*"),
        ("EXEC p 1,2,3", "EXEC p *,*,*"),
        ("SELECT 1.5E+3, -2, a-1, a - 1, 'x''y'", "SELECT *, *, a-*, a - *, *"),
        ("SELECT COUNT(*)-1 FROM t", "SELECT COUNT(*)-* FROM t"),
        ("SELECT a -- it's\r\nFROM t", "SELECT a FROM t"),
        ("SELECT a /* can't */ FROM t", "SELECT a FROM t"),
        ("SELECT a/*'*/FROM t--'", "SELECT a FROM t"),
        ("SELECT 5 /*traceparent='00-4bf9-01'*/ shop srv1", "SELECT * shop srv1"),
        ("-- one's tag\n\nSELECT 5", "SELECT *"),
        ("/* a */ /* b */ select 5", "select *"),
        ("SET NOCOUNT ON;\nINSERT INTO t VALUES (@p0, 5)", "SET NOCOUNT ON; INSERT INTO t VALUES (*)"),
        ("(SELECT 1) UNION (SELECT 2)", "(SELECT *) UNION (SELECT *)"),
        ("{call p(1, @a)}", "{call p(*, @a)}"),
        ("SELECT\n\ta\n  FROM t", "SELECT a FROM t"),
        ("SELECT a FROM t WHERE b IN ( 1, 'x',NULL )", "SELECT a FROM t WHERE b IN (*)"),
        ("SELECT a FROM t WHERE (a,b) in ((1,2),(3,4))", "SELECT a FROM t WHERE (a,b) in (*)"),
        ("SELECT a FROM t WHERE b IN (@p0, 1)", "SELECT a FROM t WHERE b IN (*)"),
        ("SELECT a FROM t WHERE b IN (@ids1,@ids2,@ids3) AND c = @c", "SELECT a FROM t WHERE b IN (*) AND c = @c"),
        ("SELECT a FROM t WHERE b IN (:p0)", "SELECT a FROM t WHERE b IN (*)"),
        ("SELECT a FROM t WHERE b IN (?, ?) OR d = ?", "SELECT a FROM t WHERE b IN (*) OR d = ?"),
        ("SELECT a FROM t WHERE (b, c) IN (($1, $2), ($3, NULL))", "SELECT a FROM t WHERE (b, c) IN (*)"),
        ("SELECT a FROM t WHERE b IN (@p0, c)", "SELECT a FROM t WHERE b IN (@p0, c)"),
        ("INSERT INTO t (a, b) VALUES (@p0, @p1),\n(@p2, @p3)", "INSERT INTO t (a, b) VALUES (*)"),
        ("MERGE t USING (VALUES (@p0, 0), (@p1, 1)) AS i (a, b)", "MERGE t USING (VALUES (*)) AS i (a, b)"),
        ("SELECT a FROM t WHERE b IN (SELECT 1)", "SELECT a FROM t WHERE b IN (SELECT *)"),
        ("INSERT INTO t VALUES (1,'x',NULL), (-2, 'y', TRUE)", "INSERT INTO t VALUES (*)"),
        ("SELECT max(1, 2) FROM t", "SELECT max(*, *) FROM t"),
        ("SELECT ARRAY[1,2], a[5] FROM [t 1]", "SELECT ARRAY[*,*], a[*] FROM [t 1]"),
        ("SELECT 'a' FROM t WHERE b = 'never ended", "SELECT * FROM t WHERE b = *"),
        ("SELECT 1 /* never ended '", "SELECT *"),
        ("SELECT $$never ended 5", "SELECT *"),
        ("SELECT E'never ended\\", "SELECT *"),
        ("SELECT q'[never ended'", "SELECT *"),
        ("SELECT a FROM t WHERE b = -$1 AND c > $2", "SELECT a FROM t WHERE b = -$1 AND c > $2"),
        ("SELECT a FROM t WHERE d = DATE '2026-01-01'", "SELECT a FROM t WHERE d = DATE *"),
        ("SELECT a FROM t WHERE b IN (1, dates)", "SELECT a FROM t WHERE b IN (*, dates)"),
        (
            "SELECT a FROM t WHERE b IN (CAST(1 AS bigint), f(2))",
            "SELECT a FROM t WHERE b IN (CAST(* AS bigint), f(*))",
        ),
    ],
)
def test_a_route_is_the_command_without_literals_and_comments(command: str, route: str) -> None:
    assert sql_route(command) == route


@pytest.mark.parametrize("place", PLACES)
def test_commands_that_differ_in_their_literals_only_are_one_route(place: str) -> None:
    count, every = place.count("{}"), NUMBERS + TEXTS
    source = random.Random(place)
    commands = [place.format(*[one] * count) for one in every]
    commands += [place.format(*(source.choice(every) for _ in range(count))) for _ in range(200)]
    assert len({sql_route(one) for one in commands}) == 1


@pytest.mark.parametrize("values", ["b IN ({})", "b in({}) AND c = 1", "b NOT IN ( {} )", "(a, b) IN (({}))"])
def test_lists_of_any_length_are_one_route(values: str) -> None:
    lists = ["1", "1,2", "1, 2, -3", "'a', 'b' , NULL", "1\n,2\n", "1 /* one */, 2"]
    assert len({sql_route(f"SELECT a FROM t WHERE {values.format(one)}") for one in lists}) == 1


@pytest.mark.parametrize("one", TYPED)
def test_lists_of_literals_with_their_types_are_one_route(one: str) -> None:
    for values in (one, f"{one}, {one}", f"{one},{one}, 1"):
        assert sql_route(f"SELECT a FROM t WHERE b IN ({values})") == "SELECT a FROM t WHERE b IN (*)"
        assert sql_route(f"INSERT INTO t VALUES ({values}), ({values})") == "INSERT INTO t VALUES (*)"


def test_a_list_may_be_cut_within_a_type() -> None:
    commands = [f"SELECT a FROM t WHERE b IN ({', '.join([one] * LONGEST)})" for one in TYPED[:9]]
    commands += [
        f"SELECT a FROM t WHERE {'b' * length} IN (1, DATE '2026-01-01', {end}"
        for length in (1, 2)
        for end in ("D", "DATE")
    ]
    assert {sql_route(one) for one in commands} == {
        f"SELECT a FROM t WHERE b IN (*){CUT}",
        "SELECT a FROM t WHERE b IN (*)",
        "SELECT a FROM t WHERE bb IN (*)",
    }


def test_as_many_rows_as_one_likes_are_one_route() -> None:
    rows = ["(1,'a')", "(1,'a'),(2,'b')", "(1, 'a'),\n(2, NULL),\n(3, DEFAULT)"]
    assert {sql_route(f"INSERT INTO t VALUES {one}") for one in rows} == {"INSERT INTO t VALUES (*)"}


@pytest.mark.parametrize(
    "comment", ["/* can't */", "/*a='1',b='2'*/", '/* " */', "/* ` [ */", "-- it's\n", "/**/", "/***/", " "]
)
def test_commands_that_differ_in_their_comments_only_are_one_route(comment: str) -> None:
    command = f"SELECT a {comment} FROM users WHERE x='p' {comment}"
    assert sql_route(command) == "SELECT a FROM users WHERE x=*"
    assert sql_route(comment + command) == "SELECT a FROM users WHERE x=*"
    assert sql_route(command.replace("users", "orders")) == "SELECT a FROM orders WHERE x=*"


def test_names_and_parameters_stay_as_they_are() -> None:
    names = [
        "table1",
        "t2.c3",
        "dbo.[x]",
        "_1",
        "é1",
        "#t1",
        "##t1",
        "@@v1",
        "a$1",
        "2fa",
        "a.b.c9",
        "x1y2",
        "e5",
        "x1F",
        "n1",
    ]
    names += ["@p0", "$1", ":p1", ":1", "?", "?1", "@1"]
    names += [
        '"it\'s"',
        '"it\'s 5"',
        '"a""5"',
        "[it's 5]",
        "[a]]'5]",
        "`it's 5`",
        '"IN (*, *)"',
        '"/* 5 */"',
        "[-- 5]",
        "`$$`",
    ]
    found = {
        name: sql_route(f"SELECT {name} FROM {name} WHERE {name}={name} AND a IN ({name},b) AND b = 'x'")
        for name in names
    }
    assert found == {
        name: f"SELECT {name} FROM {name} WHERE {name}={name} AND a IN ({name},b) AND b = *" for name in names
    }


@pytest.mark.parametrize(
    "server",
    [
        *(
            "shop srv1,1433",
            "shop tcp:srv1.example.com,1433",
            "shop 10.0.0.5,1433",
            "shop 10.0.0.5",
            r"shop srv-1\two-2,1433",
        ),
        *(
            "shop-2 tcp://10.0.0.1:5432",
            "shop db-5",
            "shop-2 db-5.example.com,1433",
            "main /data/app-2.db",
            r"main C:\it-5.db",
        ),
        *("srv1,1433", "shop [::1],1433", r"shop (localdb)\v11.0", "shop2 srv2"),
    ],
)
@pytest.mark.parametrize("command", ["SELECT a FROM t WHERE b = {}", "EXEC p @a,{}", "SELECT 'x' FROM t LIMIT {};"])
def test_the_database_and_its_server_stay_as_they_are(command: str, server: str) -> None:
    server_first = " ".join(reversed(server.split(" ")))
    for value in (5, 12):
        assert sql_route(f"{command.format(value)} {server}") == f"{command.format('*')} {server}".replace("'x'", "*")
        assert sql_route(f"{server_first} {command.format(value)}") == f"{server_first} {command.format('*')}".replace(
            "'x'", "*"
        )


@pytest.mark.parametrize(
    "end", ["LIMIT x,{}", "ORDER BY a,{}", "ORDER BY a-{}", "WHERE b = c-{}", "WHERE b = c/{}", "WHERE b IN (a,{})"]
)
def test_what_ends_a_command_is_not_taken_for_a_server(end: str) -> None:
    commands = [f"SELECT a FROM t {end.format(number)}" for number in (50, 1433)]
    assert {sql_route(one) for one in commands} == {f"SELECT a FROM t {end.format('*')}"}


def test_a_database_may_have_blanks_in_its_name() -> None:
    assert sql_route("srv,1433 My 2nd Shop select 5") == "srv,1433 My 2nd Shop select *"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "GET /select/x",
            "GET /a select 5/b",
            "DELETE /it's/5a",
            "MERGE /a",
            "http://select.example:80/a",
            "127.0.0.1:1433",
        ),
        *(
            "/pkg.Service/Select",
            "/tmp/it's 5.sock",
            "[::1]:5432",
            "db.example.com",
            "(this host)",
            "server",
            "",
            "select",
            "x=1 y=2",
        ),
    ],
)
def test_what_is_no_command_has_no_route_of_one(name: str) -> None:
    assert sql_route(name) is None
    assert routes([name], np.arange(1))[0] == [name]


def test_a_request_whose_method_is_delete_is_an_address() -> None:
    labels = ["DELETE /items/5?id=7", "DELETE /x/6f9619ff-8b86-d011-b42d-00c04fc964ff"]
    assert routes(labels, np.arange(2))[0] == ["DELETE /items/*?id=*", "DELETE /x/*"]


def test_of_a_very_long_command_its_begin_is_the_route() -> None:
    many = [
        f"SELECT a FROM t WHERE b IN ({','.join(str(one) for one in range(start, start + LONGEST))})"
        for start in (0, 7)
    ]
    assert {sql_route(one) for one in many} == {f"SELECT a FROM t WHERE b IN (*){CUT}"}
    text = f"SELECT a FROM t WHERE b = '{'x' * LONGEST}' shop srv"
    assert sql_route(text) == f"SELECT a FROM t WHERE b = *{CUT}"


_UNITS = [
    *(
        "'",
        '"',
        "`",
        "[",
        "]",
        "[]]",
        "((",
        "( ",
        "*",
        "/",
        "/*",
        "-",
        "- ",
        "--",
        "--\n",
        " ",
        "\t",
        " ,-",
        "= ",
        ":",
        ".",
        "?",
        "\\",
        "\0",
        "é",
    ),
    *(
        "1",
        "1 ",
        "1,",
        "1e",
        "1.",
        "0x",
        "a.",
        "x1-",
        "$",
        "$a",
        "$a$",
        "E'",
        "E'\\",
        "N'",
        "U&",
        "IN (",
        "IN (*,",
        "in(1,(1,",
        "VALUES (1),",
        "q'",
        "q'[",
        "q'[]",
        "nq'!",
        "$5.",
        "-$5",
        "0b",
        "IN (DATE ",
        "DATE '1', ",
        "INTERVAL '1' DAY TO ",
        "IN (CAST(1 AS ",
        "CAST(1 AS a(1,",
        "1::a",
        "IN (1 ",
        "IN (1, a b ",
    ),
    *("SELECT IN", "select ", "and ", "a,5", "a-", "/a", "x\\", "10.", "tcp:", "\n-"),
]


@pytest.mark.parametrize("unit", _UNITS)
def test_no_command_takes_long(unit: str) -> None:
    """It returns: of a pattern that goes back, or looks at the rest from each place, this would take minutes."""
    for start in ("", "SELECT ", "a b select in (", "SELECT 'x", "SELECT x,", "SELECT $$", "/*", "db "):
        for length in (LONGEST - 100, 1 << 20):
            sql_route(start + unit * (length // len(unit)))


def test_any_text_has_a_route() -> None:
    source = random.Random(7)
    words = [*_UNITS, *NUMBERS, *TEXTS, "a", " ", "FROM", "IN", "VALUES", "(", ")", ",", "…"]
    for _ in range(3000):
        command = "SELECT a," + "".join(source.choice(words) for _ in range(source.randrange(30)))
        assert sql_route(command) is not None
