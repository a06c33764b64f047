"""What is found out about servers before a run: nothing is altered, and no Spark is started."""

from pathlib import Path
from typing import Any

import pytest

from changeling.cli import main
from changeling.model.errors import ChangelingError
from changeling.pipelines.checking import Finding, checks
from changeling.pipelines.listener import Listener
from changeling.pipelines.pipeline import Pipeline
from tests.brokers.broker import Broker, User
from tests.brokers.fixtures import ALICE
from tests.brokers.topics import Topics
from tests.postgres.roles import role
from tests.postgres.server import Database

USERS = "CREATE TABLE users (id int PRIMARY KEY, name text)"
RECORD = (Path(__file__).parents[1] / "cli" / "records" / "xtdb.jsonl").read_bytes().splitlines()[0]


def pipeline(folder: Path, *sources: str, more: str = "") -> Path:
    file = folder / "shop.yaml"
    listed = "\n".join(f"  - {source}" for source in sources)
    file.write_text(f"name: shop\nwarehouse: ./lake\nsources:\n{listed}\n{more}")
    return file


def found(file: Path, subject: str) -> Finding:
    (check,) = (one for one in checks(file) if one.subject == subject)
    return check.look()


def postgres(url: str, **settings: Any) -> str:
    more = "".join(f", {name}: {value}" for name, value in settings.items())
    return f'{{name: pg, type: postgres, url: "{url}", tables: ["public.*"]{more}}}'


def test_tables_that_can_be_captured_are_listed_and_nothing_is_altered(tmp_path: Path, database: Database) -> None:
    database.execute(USERS, "INSERT INTO users VALUES (1, 'Ann'), (2, 'Bob')", "CREATE TABLE bag (a int)")
    file = pipeline(tmp_path, postgres(database.url))
    finding = found(file, "source pg")
    assert (finding.status, finding.code) == ("warning", 3)
    first, second = finding.text.split("\n")
    assert first == "public.users; 2 rows read"
    assert second.startswith(f"left out: {database.name}.public.bag: public.bag has nothing that identifies its rows")
    database.execute("ALTER TABLE bag REPLICA IDENTITY FULL")
    assert found(file, "source pg") == Finding("public.bag, public.users; 2 rows read")
    assert database.rows("SELECT 1 FROM pg_publication") == []
    assert database.rows(f"SELECT 1 FROM pg_replication_slots WHERE database = '{database.name}'") == []


def test_missing_rights_and_wrong_rules_are_reported(tmp_path: Path, database: Database) -> None:
    database.execute(USERS)
    rule = "tables:\n  - {name: public.users, exclude: [nmae]}\n"
    finding = found(pipeline(tmp_path, postgres(database.url), more=rule), "source pg")
    assert (finding.status, finding.code) == ("failed", 2)
    assert finding.text.endswith("has no column 'nmae', which a rule names: did you mean 'name'?")
    with role(database) as user:
        finding = found(pipeline(tmp_path, postgres(user.url)), "source pg")
    assert (finding.status, finding.code) == ("failed", 1)
    assert f'\n    ALTER ROLE "{user.name}" REPLICATION;' in finding.text
    assert f'\n    GRANT SELECT ON "public"."users" TO "{user.name}";' in finding.text


class SparkIsWanted(Exception):
    """What a run looks at before it starts Spark is done."""


def test_a_run_reports_what_it_cannot_reach_before_it_starts_spark(tmp_path: Path, database: Database) -> None:
    nowhere = database.url.replace(database.name, "nowhere")
    target = f'targets:\n  - {{name: copy, type: postgres, url: "{nowhere}", tables: ["*"]}}\n'
    made = Pipeline.load(pipeline(tmp_path, postgres(nowhere), more=target))
    warned: list[tuple[str, str]] = []

    class Heard(Listener):
        def on_warning(self, source: str, text: str) -> None:
            warned.append((source, text))

        def on_prepare(self, what: str) -> None:
            raise SparkIsWanted

    with pytest.raises(ChangelingError, match='database "nowhere" does not exist'):
        made.run(once=True, listener=Heard())
    assert [name for name, _ in warned] == ["copy"]
    errors = {row["name"]: row["last_error"] for row in made.status() if row["kind"] != "table"}
    assert 'database "nowhere" does not exist' in errors["pg"]
    warned.clear()
    # Without `once`, it keeps trying.
    with pytest.raises(SparkIsWanted):
        made.run(listener=Heard())
    assert [name for name, _ in warned] == ["pg", "copy"]
    assert all('database "nowhere" does not exist' in text for _, text in warned)


def kafka(servers: str, *topics: str, **settings: str) -> str:
    client = ", ".join(f"{name}: '{value}'" for name, value in settings.items())
    return f"{{name: bus, type: kafka, servers: '{servers}', topics: [{', '.join(topics)}], format: xtdb, kafka: {{{client}}}}}"


def test_topics_are_looked_at_and_their_first_records_decoded(tmp_path: Path, broker: Broker) -> None:
    topics = Topics(broker)
    topics.make("checked.users", 2)
    topics.make("checked.orders")
    topics.send("checked.users", RECORD, RECORD)
    file = pipeline(tmp_path, kafka(broker.servers, "checked.*"))
    assert found(file, "source bus") == Finding(
        "checked.orders, checked.users: 2 records; the first 2 can be read, changes of mydb.users"
    )
    topics.send("checked.orders", b"{}")
    finding = found(file, "source bus")
    assert (finding.status, finding.code) == ("warning", 3)
    assert finding.text.startswith(
        "checked.orders, checked.users: 3 records; of the first 3 records 1 cannot be read\n1: "
    )
    finding = found(pipeline(tmp_path, kafka(broker.servers, "checked.usres")), "source bus")
    assert finding == Finding("there is no topic 'checked.usres' yet; did you mean 'checked.users'?", "warning")
    finding = found(pipeline(tmp_path, kafka(broker.servers, "nothing*")), "source bus")
    assert finding.text.startswith("no topic matches nothing* yet: it is read once it is there; the cluster has ")


def test_a_refused_login_is_reported_soon(tmp_path: Path, guarded_broker: Broker) -> None:
    def login(user: User) -> dict[str, str]:
        return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": user.jaas()}

    file = pipeline(tmp_path, kafka(guarded_broker.password_servers, "nothing*", **login(User("alice", "hush-hush"))))
    finding = found(file, "source bus")
    assert (finding.status, finding.code) == ("failed", 1)
    assert "the login was refused" in finding.text
    assert "hush-hush" not in finding.text
    file = pipeline(tmp_path, kafka(guarded_broker.password_servers, "nothing*", **login(ALICE)))
    assert found(file, "source bus").text.startswith("no topic matches nothing* yet: it is read once it is there")
    settings = {"security.protocol": "SSL", "ssl.truststore.location": "/no.jks"}
    finding = found(pipeline(tmp_path, kafka(guarded_broker.tls_servers, "t", **settings)), "source bus")
    assert (finding.status, finding.text.startswith("cannot be checked without Spark")) == ("warning", True)


@pytest.mark.services
@pytest.mark.parametrize("arguments", [("verify", "usres"), ("snapshot", "usres")])
def test_an_unknown_table_is_reported_without_spark(
    tmp_path: Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    database.execute(USERS)
    file = pipeline(tmp_path, postgres(database.url))
    assert main([*arguments, "--pipeline", str(file)]) == 2
    expected = "changeling: there is no table 'usres' among those captured; did you mean 'users'?\n"
    assert capsys.readouterr().err == expected
    assert database.rows("SELECT 1 FROM pg_publication") == []
