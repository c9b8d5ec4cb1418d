"""Rewards from databases and Parquet files: the same study as from CSV, to the bit; nothing is written there."""

import csv
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.agent.test_worker import make, plan
from tests.coordinator.support import House, study_message

from parley.agent import Outbox, Worker
from parley.agent.plans import NotYet
from parley.agent.sources import make_source
from parley.coordinator.record import initialise, open_storage
from parley.errors import InvalidInput
from parley.totals import Totals

pytestmark = pytest.mark.servers
ROWS = [("x", 0.1), ("y", 1e16), ("x", 0.2), ("x", 1 / 3), ("y", -1e16), ("x", 1e-9)]
QUERY = "SELECT id, arm, reward FROM outcomes WHERE site = :agent ORDER BY id"
SECRET = "s3cret-of-the-warehouse"


def write_csv(folder, rows):
    with (folder / "rewards.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "arm", "reward"), *((place, *row) for place, row in enumerate(rows))])
    return f"csv:{folder / 'rewards.csv'}"


def write_parquet(folder, rows):
    columns = {"id": range(len(rows)), "Arm": [row[0] for row in rows], "reward": [row[1] for row in rows]}
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), folder / "rewards.parquet")
    return f"parquet:{folder / 'rewards.parquet'}"


def write_duckdb(folder, rows):
    with duckdb.connect(folder / "house.duckdb") as database:
        fill(database.execute, rows)
    return configured(folder, f"duckdb:///{folder / 'house.duckdb'}")


def write_sqlite(folder, rows):
    with sqlite3.connect(folder / "house.db") as database:
        fill(database.execute, rows)
    database.close()
    return configured(folder, f"sqlite:///{folder / 'house.db'}")


def fill(execute, rows):
    execute("CREATE TABLE outcomes (id integer, site varchar(9), arm varchar(20), reward double precision)")
    told = [(place, arm, "NULL" if reward is None else repr(reward)) for place, (arm, reward) in enumerate(rows)]
    values = [f"({place}, 'a', '{arm}', {reward}), ({place}, 'b', '{arm}', 99)" for place, arm, reward in told]
    execute(f"INSERT INTO outcomes VALUES {', '.join(values)}")


def configured(folder, url, query=QUERY, **more):
    lines = [
        f"url = '{url}'" if url else "",
        f'query = """{query}"""',
        *(f"{key} = {value!r}" for key, value in more.items()),
    ]
    (folder / "house.toml").write_text("\n".join(lines), encoding="utf-8")
    return f"sql:{folder / 'house.toml'}"


@pytest.mark.parametrize("write", [write_parquet, write_duckdb, write_sqlite])
def test_rows_are_those_of_the_csv_file_to_the_bit(tmp_path, write):
    """Sums that depend on the order in which a database would add: 1e16 + 0.1 - 1e16."""
    for name in ("known", "other"):
        (tmp_path / name).mkdir()
    known, other = make(write_csv(tmp_path / "known", ROWS)), make(write(tmp_path / "other", ROWS))
    for asked in (plan(1, (2, 1)), plan(2, (1, 1))):
        expected, found = known(asked), other(asked)
        assert found.totals == expected.totals
        assert found.rewards == expected.rewards
        assert asked.report(found).text == asked.report(expected).text


def run_study(folder, source):
    """A whole study whose agent draws from a source; its certificate and reports."""
    initialise(str(folder / "parley.db"))
    storage = open_storage(str(folder / "parley.db"))
    house = House(storage)
    try:
        message = study_message(agents=1, arms=2, policy="evidence")
        (client,) = house.create(message)
        with Outbox(folder / "outbox", study="trial", agent="agent 1") as box:
            drawn_by = make_source(source, seed=0, taken=box.report, whole_plan=None, memory=box)
            last = Worker(client, box, drawn_by, patience=0.0, sleep=lambda _: None).run()
            reports = [box.report(phase).text for phase in range(1, last.phase + 1)]
        certificate = house.admin.request("GET", "studies", "trial", "certificate")
        return certificate | {"head": "with times and salts"}, reports
    finally:
        house.close()
        storage.close()


def test_a_study_from_a_query_is_the_study_from_csv(tmp_path):
    chance = np.random.default_rng(3)
    rows = [(f"arm {1 + place % 2}", float(chance.normal(1 - place % 2, 1))) for place in range(400)]
    found = {}
    for write in (write_csv, write_duckdb, write_parquet):
        folder = tmp_path / write.__name__
        folder.mkdir()
        source = write(folder, rows)
        if source.startswith("sql:"):
            url = f"duckdb:///{folder / 'house.duckdb'}"
            source = configured(folder, url, "SELECT arm, reward FROM outcomes WHERE site = 'a' ORDER BY id")
        found[write] = run_study(folder, source)
    assert len(found[write_csv][1]) > 1
    assert found[write_duckdb] == found[write_parquet] == found[write_csv]


def test_totals_of_a_phase(tmp_path):
    source = write_sqlite(tmp_path, ROWS)
    url = f"sqlite:///{tmp_path / 'house.db'}"
    query = """SELECT arm, count(*) AS count, sum(reward) AS sum, sum(reward * reward) AS squares
               FROM outcomes WHERE site = :agent AND id < 3 * :phase GROUP BY arm"""
    found = make(configured(tmp_path, url, query))(plan())
    assert found.totals == Totals.of([[0.1, 0.2], [1e16]])
    assert not found.rewards
    with pytest.raises(NotYet, match="x: 2 of 3 are there"):
        make(source)(plan(draws=(3, 1)))
    with pytest.raises(InvalidInput, match=r"house.toml, count of x: found 2; allowed: 1, as phase 1 asks.*:phase"):
        make(source)(plan(draws=(1, 1)))
    configured(tmp_path, url, "SELECT 'x' AS arm, 2 AS count, 1 AS sum, 1 AS squares UNION ALL SELECT 'x', 1, 1, 1")
    with pytest.raises(InvalidInput, match="line 2, column arm: found 'x' again"):
        make(source)(plan())


def drawn(delivery):
    return {one.name: (one.totals.counts.tolist(), one.totals.sums.tolist(), one.missing) for one in delivery.outcomes}


def test_totals_of_further_outcomes(tmp_path):
    """Each with its own counts and missing ones, which together are those of the phase."""
    write_sqlite(tmp_path, ROWS)
    url = f"sqlite:///{tmp_path / 'house.db'}"
    cells = "'x' AS arm, 2 AS count, 1 AS sum, 1 AS squares, {} AS harm_count, 1 AS harm_sum, 1 AS harm_squares, "
    cells += "1 AS harm_missing, 2 AS vas_count, 6.5 AS vas_sum, 22.25 AS vas_squares, 0 AS vas_missing"
    other = "UNION ALL SELECT 'y', 1, 0, 0, 1, 1, 1, 0, 1, 3, 9, NULL"
    outcomes = {"harm": "harm", "Pain": "vas"}
    found = make(configured(tmp_path, url, f"SELECT {cells.format(1)} {other}"), outcomes=outcomes)(plan())
    assert drawn(found) == {"harm": ([1, 1], [1.0, 1.0], (1, 0)), "Pain": ([2, 1], [6.5, 3.0], (0, 0))}
    assert [one.missing for one in plan().report(found).outcomes] == [(1, 0), ()]
    with pytest.raises(InvalidInput, match="harm_count and harm_missing of x: found 2 and 1; allowed: together 2"):
        make(configured(tmp_path, url, f"SELECT {cells.format(2)} {other}"), outcomes=outcomes)(plan())
    few = configured(tmp_path, url, "SELECT 'x' AS arm, 2 AS count, 1 AS sum, 1 AS squares")
    with pytest.raises(InvalidInput, match="column harm_count: found the columns arm, count, sum, squares"):
        make(few, outcomes=outcomes)(plan())


def test_further_outcomes_from_a_query_and_a_parquet_file(tmp_path):
    """As from CSV: an empty cell is waited for, a word says that nothing will come."""
    columns = {"arm": ["x", "y", "x"], "reward": [1.0, 0.0, 0.0], "harm": ["0", "1", "missing"], "VAS": [2.5, 3.0, 4.0]}
    outcomes = {"harm": "harm", "Pain": "vas"}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    with duckdb.connect(tmp_path / "house.duckdb") as database:
        database.execute(
            f"CREATE TABLE rows AS SELECT row_number() OVER () AS id, * FROM '{tmp_path / 'rows.parquet'}'"
        )
    query = configured(tmp_path, f"duckdb:///{tmp_path / 'house.duckdb'}", "SELECT * FROM rows ORDER BY id")
    for source in (f"parquet:{tmp_path / 'rows.parquet'}", query):
        found = make(source, outcomes=outcomes)(plan())
        assert drawn(found) == {"harm": ([1, 1], [0.0, 1.0], (1, 0)), "Pain": ([2, 1], [6.5, 3.0], ())}
    pq.write_table(pa.table(columns | {"VAS": [2.5, None, 4.0]}), tmp_path / "rows.parquet")
    with pytest.raises(NotYet, match="has no vas yet"):
        make(f"parquet:{tmp_path / 'rows.parquet'}", outcomes=outcomes)(plan())


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT arm FROM outcomes ORDER BY id", "column reward: found the columns arm; allowed: also reward"),
        ("SELECT arm, 2 AS count, 1 AS sum FROM outcomes", "column squares: found the columns arm, count, sum"),
        ("SELECT arm, reward FROM outcomes", "query: found rows in no order; allowed: ORDER BY"),
        ("SELECT upper(arm) AS arm, reward FROM outcomes ORDER BY id", "line 1, column arm: found 'X'; allowed: x, y"),
        ("SELECT arm, 'much' AS reward FROM outcomes ORDER BY id", "line 1, column reward: found 'much'"),
        ("SELECT 1 AS id, arm, reward FROM outcomes ORDER BY 2", "line 2, column id: found '1' again, as in line 1"),
        (
            "SELECT arm, reward FROM outcomes WHERE id > :since ORDER BY id",
            "found :since; allowed: the parameters :study",
        ),
        ("SELECT arm, reward FROM nowhere ORDER BY id", "query: found .*nowhere"),
        ("SELECT arm, reward, arm FROM outcomes ORDER BY id", "found two columns arm"),
        ("DELETE FROM outcomes RETURNING arm, reward, 'order by' AS id", "query: found .*(read-only|readonly)"),
    ],
)
@pytest.mark.parametrize("write", [write_duckdb, write_sqlite])
def test_a_wrong_query_is_told(tmp_path, query, words, write):
    source = write(tmp_path, ROWS)
    url = f"{'duckdb' if write is write_duckdb else 'sqlite'}:///{next(tmp_path.glob('house.d*'))}"
    configured(tmp_path, url, query)
    if "DELETE" in query and write is write_sqlite:
        words = "readonly"
    with pytest.raises((InvalidInput, NotYet), match=words) as told:
        make(source)(plan())
    assert "house.toml" in str(told.value)
    configured(tmp_path, url)
    assert make(source)(plan()).totals == Totals.of([[0.1, 0.2], [1e16]])


def test_rows_of_the_past_must_stay(tmp_path):
    source = make(write_sqlite(tmp_path, ROWS))
    source(plan())
    with sqlite3.connect(tmp_path / "house.db") as database:
        database.execute("UPDATE outcomes SET reward = 9 WHERE id = 0")
    database.close()
    with pytest.raises(InvalidInput, match=r"house.toml, line 1: found x, 9, which was not there"):
        source(plan(2))


def test_an_outcome_that_is_not_there_yet_is_waited_for(tmp_path):
    with pytest.raises(NotYet, match=r"x: 1 of 2 rows are there \(line 3 has no reward yet\)"):
        make(write_sqlite(tmp_path, [("x", 1.0), ("y", 1.0), ("x", None)]))(plan())
    with pytest.raises(NotYet, match="is not there"):
        make(f"parquet:{tmp_path / 'none.parquet'}")(plan())


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("query = 'SELECT 1'\nurl = 'postgresql://a:s3cret@b/c'", "url: found a password; .* from PARLEY_SQL_PASSWORD"),
        ("query = 'SELECT 1'\nurl = 'nothing'", "url: found none that can be read; .*PARLEY_SQL_URL"),
        ("query = 'SELECT 1'", "url: found none that can be read"),
        ("query = 'SELECT 1'\nurl = 'abacus://x'", "url: found abacus"),
        ("url = 'duckdb://'", "found no query"),
        ("query = 'SELECT 1'\npassword = 's3cret'", "found 'password'; allowed: one of password_variable"),
        ("query = 'SELECT 1'\ntimeout = 'long'", "timeout: found 'long'; allowed: a number"),
        ("query = 1", "query: found 1; allowed: text"),
        ("query =", "allowed: a TOML file"),
    ],
)
def test_a_wrong_file_is_told(tmp_path, lines, words):
    (tmp_path / "house.toml").write_text(lines, encoding="utf-8")
    with pytest.raises(InvalidInput, match=words) as told:
        make(f"sql:{tmp_path / 'house.toml'}")(plan())
    assert "s3cret" not in str(told.value)


def test_a_database_that_does_not_answer_is_asked_later(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_SQL_PASSWORD", SECRET)
    source = make(configured(tmp_path, "postgresql://reader@127.0.0.1:9/house"))
    with pytest.raises(NotYet, match=r"no answer: .*refused") as told:
        source(plan())
    assert SECRET not in str(told.value)
    with pytest.raises(NotYet, match=r"house\.toml: no answer"):
        make(configured(tmp_path, f"duckdb:///{tmp_path / 'none.duckdb'}"))(plan())
    with pytest.raises(NotYet, match=r"house\.toml: no answer"):
        make(configured(tmp_path, f"sqlite:///{tmp_path / 'none.db'}"))(plan())
    assert [path.name for path in tmp_path.iterdir()] == ["house.toml"]


def test_a_query_that_takes_too_long_is_stopped(tmp_path):
    many = "range(10000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
    endless = f"SELECT 'x' AS arm, count(*) AS reward FROM {many} ORDER BY 1"
    with pytest.raises(NotYet, match=r"no answer within 0\.2 s"):
        make(configured(tmp_path, "duckdb://", endless, timeout=0.2))(plan())


def test_postgresql(tmp_path, postgres, monkeypatch):
    name = "warehouse"
    postgres.psql(f"CREATE DATABASE {name}")
    url = postgres.get_uri().replace("/postgres?", f"/{name}?")
    postgres.psql(f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")

    import sqlalchemy

    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        fill(connection.exec_driver_sql, ROWS)
        connection.exec_driver_sql("GRANT ALL ON outcomes TO reader")
    engine.dispose()
    monkeypatch.setenv("PARLEY_SQL_PASSWORD", SECRET)
    reader = url.replace("//postgres:@", "//reader@")
    assert "reader@" in reader
    expected = Totals.of([[0.1, 0.2], [1e16]])
    assert make(configured(tmp_path, reader))(plan()).totals == expected
    monkeypatch.setenv("PARLEY_SQL_URL", url)
    assert make(configured(tmp_path, ""))(plan()).totals == expected
    for query, error, words in (
        ("UPDATE outcomes SET reward = 0 RETURNING arm, reward, 'order by'", InvalidInput, "read-only transaction"),
        ("SELECT arm, reward FROM nowhere ORDER BY 1", InvalidInput, 'relation "nowhere" does not exist'),
        ("SELECT 'x' AS arm, 1 AS reward, pg_sleep(60) ORDER BY 1", NotYet, r"no answer within 0\.5 s"),
    ):
        with pytest.raises(error, match=words):
            make(configured(tmp_path, reader, query, timeout=0.5))(plan())
    assert make(configured(tmp_path, reader))(plan()).totals == expected
