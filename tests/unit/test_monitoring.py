"""What ships for Prometheus and Grafana: rules that fire and are tested, and no name that rankd does not export."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from promtool import promtool

from rankd.core.metric.catalog import METRICS, metric_of

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "config" / "monitoring"
RULES = yaml.safe_load((PLACE / "rankd.rules.yml").read_text())["groups"][0]["rules"]
TESTS = yaml.safe_load((PLACE / "rankd.rules.test.yml").read_text())["tests"]
DASHBOARD = json.loads((PLACE / "grafana" / "dashboards" / "rankd.json").read_text())
PAGE = (ROOT / "docs" / "how-to" / "monitoring.md").read_text()

SERIES = re.compile(r"\b((?:rankd|process)_\w+)(?:\{([^}]*)\})?")
KEY = re.compile(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "le"}


def expressions() -> list[str]:
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in RULES] + shown


@pytest.mark.parametrize("expression", expressions())
def test_every_series_that_is_asked_for_is_exported_with_its_labels(expression):
    found = SERIES.findall(expression)
    assert found or expression.startswith("up{")
    labels = set(OF_PROMETHEUS)
    for name, selector in found:
        metric = metric_of(name)
        assert metric is not None, f"{name} is not exported"
        assert set(KEY.findall(selector)) <= {*metric.labels, *OF_PROMETHEUS}, name
        labels |= set(metric.labels)
    for keys in GROUPED.findall(expression):
        assert {key.strip() for key in keys.split(",")} <= labels


@pytest.mark.parametrize("series", [one["series"] for test in TESTS for one in test["input_series"]])
def test_the_tests_of_rules_are_about_series_as_they_are_exported(series):
    for name, selector in SERIES.findall(series):
        metric = metric_of(name)
        assert metric is not None, f"{name} is not exported"
        assert set(KEY.findall(selector)) - {"instance"} == set(metric.labels), series


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_happened_and_what_to_do_and_its_page_exists(rule):
    assert set(rule["annotations"]) == {"summary", "description", "action", "runbook_url"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    file, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert file == "docs/how-to/monitoring.md"
    assert anchor == rule["alert"].lower()
    assert f"### {rule['alert']}\n" in PAGE
    for used in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
        assert re.search(rf"\b{used}\b", rule["expr"]) or used in OF_PROMETHEUS or used in labels_of(rule["expr"])


def labels_of(expression: str) -> set[str]:
    return {label for name, _ in SERIES.findall(expression) for label in metric_of(name).labels}


@pytest.mark.parametrize("name", [rule["alert"] for rule in RULES])
def test_each_alert_has_a_test_in_which_it_fires(name):
    fired = [
        sample["labels"]
        for test in TESTS
        for asked in test.get("promql_expr_test", ())
        for sample in asked["exp_samples"]
    ]
    said = [asked["alertname"] for test in TESTS for asked in test.get("alert_rule_test", ()) if asked["exp_alerts"]]
    assert name in said or any(f'alertname="{name}"' in labels for labels in fired)


def test_promtool_finds_no_fault_in_the_rules_and_their_tests():
    promtool("check", "rules", "rankd.rules.yml", cwd=PLACE)
    promtool("test", "rules", "rankd.rules.test.yml", cwd=PLACE)
    promtool("check", "config", "prometheus.yml", cwd=PLACE)


def test_promtool_can_read_every_question_of_the_dashboard(tmp_path):
    shown = [text.replace("$__rate_interval", "1m") for text in expressions()]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(shown)]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_the_dashboard_asks_the_source_that_was_chosen_and_no_panel_lies_on_another():
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert {panel["datasource"]["uid"] for panel in panels if panel["type"] != "row"} == {"${source}"}
    assert [one["name"] for one in DASHBOARD["templating"]["list"]] == ["source"]


def test_the_reference_lists_every_metric():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert [name for name in METRICS if f"`{name}`" not in page] == []
