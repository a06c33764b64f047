"""The metrics of a run: the dashboard, the alert rules and the page name those that exist, with the labels that they have."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from changeling.model.errors import UsageError
from changeling.pipelines.metrics_server import served
from changeling.pipelines.run_metrics import RunMetrics

REPOSITORY = Path(__file__).parents[2]
ALERTS = yaml.safe_load((REPOSITORY / "operations/prometheus-alerts.yaml").read_text())
DASHBOARD = json.loads((REPOSITORY / "operations/grafana-dashboard.json").read_text())
NAME = re.compile(r"changeling_[a-z_]+")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}


def series() -> dict[str, set[str]]:
    """The series that a run offers, and their labels."""
    metrics = RunMetrics("shop")
    own = [one for one in vars(metrics).values() if hasattr(one, "_labelnames")]
    labels = {one._name: set(one._labelnames) for one in own}
    labels |= {family.name: set(family._labelnames) for family in metrics.describe()}
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        more = {"le"} if family.type == "histogram" else set()
        found |= {family.name + suffix: labels[family.name] | more for suffix in SUFFIXES[family.type]}
    return found


def rules() -> Iterator[tuple[str, str]]:
    """The expressions of rules and panels, each with its texts, which show labels."""
    for rule in ALERTS["groups"][0]["rules"]:
        yield rule["expr"], " ".join(rule["annotations"].values())
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def test_rules_and_panels_ask_for_metrics_that_exist() -> None:
    offered = series()
    for expression, text in rules():
        names = NAME.findall(expression)
        assert names or expression.startswith("up{"), expression
        for name in names:
            assert name in offered, expression
            used = set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", text))
            used |= {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
            used |= set(re.findall(r"(\w+)=~", expression))
            assert used <= offered[name], expression
    (variable,) = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    assert NAME.findall(variable)[0] in offered


@pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no Prometheus")
def test_prometheus_accepts_the_rules_and_the_metrics() -> None:
    metrics = RunMetrics("shop")
    metrics.on_failure("pg", "PostgreSQL at db: refused")
    checks: list[tuple[list[str], bytes | None]] = [
        (["rules", str(REPOSITORY / "operations/prometheus-alerts.yaml")], None),
        (["metrics"], metrics.text()),
    ]
    for words, given in checks:
        done = subprocess.run(["promtool", "check", *words], input=given, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_page_lists_every_metric() -> None:
    page = (REPOSITORY / "docs/operations.md").read_text()
    listed = {name for name in NAME.findall(page) if not name.endswith(("_healthz", "_"))}
    offered = {re.sub("_(bucket|count|sum)$", "", name) if "seconds_" in name else name for name in series()}
    assert listed == offered


def test_what_supervises_a_run_is_answered() -> None:
    metrics = RunMetrics("shop")

    def ask(path: str) -> tuple[int, str]:
        try:
            with urlopen(address + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    with served(metrics, "0") as address:
        assert address.startswith("http://127.0.0.1:")
        assert ask("/healthz") == (200, '{"status": "ok"}\n')
        assert ask("/readyz") == (503, '{"status": "starting"}\n')
        metrics.on_failure("pg", "PostgreSQL at db: refused")
        assert 'changeling_failing{part="pg",pipeline="shop"} 1.0\n' in ask("/metrics")[1]
        metrics.on_recovery("pg")
        assert "changeling_failing{" not in ask("/metrics")[1]
        assert ask("/")[0] == 404
        port = address.rpartition(":")[2]
        with pytest.raises(UsageError, match=f"--metrics {port}: Address already in use"), served(metrics, port):
            pass


@pytest.mark.parametrize("place", ["", "localhost", "x:y", "70000", "-1", "1.5"])
def test_what_is_no_port_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="write a port"), served(RunMetrics("shop"), place):
        pass
