"""Alerts as rules of Prometheus: YAML that says what the rule does, over metrics that there are."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from mqservice.alerts.models import AlertRule
from mqservice.alerts.prometheus import expression, rules_file
from mqservice.alerts.settings import AlertKind
from mqservice.groups.models import ConsumerGroup
from mqservice.sampling.metrics import namespace_metrics
from tests.engine import running_engine
from tests.mqservice.alerts.conftest import NOW_MS, Measured, Rule
from tests.people import People

Api = Callable[[str], Client]
SELECTOR = re.compile(r"\b(mq_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def loaded(text: str) -> list[dict[str, Any]]:  # Any: what YAML holds
    (group,) = yaml.safe_load(text)["groups"]
    assert group["name"] == "mqservice/acme"
    rules: list[dict[str, Any]] = group["rules"]  # Any: as above
    return rules


def series(text: str) -> list[tuple[str, dict[str, str]]]:
    families = text_string_to_metric_families(text)
    return [(each.name, each.labels) for family in families for each in family.samples]


@pytest.fixture
def all_kinds(rule: Rule) -> list[AlertRule]:
    return [
        rule(name="lag", threshold=10_000, for_ms=60_000),
        rule(name="lag-on-topic", topic="orders", for_ms=1_500),
        rule(name="age", kind="oldest_age", threshold=90_500),
        rule(name="age-on-topic", kind="oldest_age", topic="orders", threshold=60_000),
        rule(name="given-up", kind="dlq_growth", threshold=5, window_ms=600_000),
        rule(name="nobody", kind="no_consumer", threshold=1),
        rule(name="disk", kind="disk", group_name="", threshold=85),
    ]


def test_each_kind_becomes_what_it_watches(all_kinds: list[AlertRule]) -> None:
    assert {AlertKind(rule.kind) for rule in all_kinds} == set(AlertKind) - {AlertKind.ISSUE}
    own = 'mq_namespace="acme",group="billing"'
    assert [expression("acme", rule) for rule in all_kinds] == [
        f"mq_group_lag_messages{{{own}}} >= 10000",
        f'mq_group_topic_lag_messages{{{own},topic="orders"}} >= 100',
        f"mq_group_oldest_age_seconds{{{own}}} >= 90.5",
        f'mq_group_topic_oldest_age_seconds{{{own},topic="orders"}} >= 60',
        f"mq_group_dead_letters_total{{{own}}} - "
        f"mq_group_dead_letters_total{{{own}}} offset 10m >= 5",
        f"mq_group_members{{{own}}} == 0",
        "100 * (1 - mq_engine_disk_free_bytes / mq_engine_disk_total_bytes) >= 85",
    ]


def test_each_series_that_a_rule_asks_for_is_reported_by_the_service_or_the_engine(
    people: People, all_kinds: list[AlertRule], measured: Measured
) -> None:
    known = {"lag_last": 1, "lag_ms_max": 1, "member_last": 1, "dead_last": 1}
    measured(**known)
    measured(topic="orders", **known)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running_engine({"MQ_ENGINE_METRICS_PORT": str(port)}):
        engine_text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    told = series(namespace_metrics(people.acme, NOW_MS).decode()) + series(engine_text)
    asked = 0
    for rule in all_kinds:
        for name, labels in SELECTOR.findall(expression("acme", rule)):
            wanted = dict(LABEL.findall(labels))
            fitting = [
                has for metric, has in told if metric == name and wanted.items() <= has.items()
            ]
            assert len(fitting) == 1, (rule.name, name, wanted)
            asked += 1
    assert asked == 9


def test_the_file_is_yaml_with_all_of_a_rule(all_kinds: list[AlertRule]) -> None:
    rules = loaded(rules_file("acme", all_kinds))
    assert [each["alert"] for each in rules] == [each.name for each in all_kinds]
    assert [each["expr"] for each in rules] == [expression("acme", each) for each in all_kinds]
    assert [each.get("for") for each in rules][:3] == ["1m", "1500ms", None]
    assert rules[0] == {
        "alert": "lag",
        "expr": expression("acme", all_kinds[0]),
        "for": "1m",
        "labels": {"mq_namespace": "acme", "mq_kind": "lag"},
        "annotations": {"summary": 'billing has {{ printf "%.0f" $value }} messages to settle'},
    }
    assert "on orders" in rules[1]["annotations"]["summary"]


def test_words_of_yaml_are_names_all_the_same(rule: Rule) -> None:
    names = ["no", "123", "1e3", "null", "-", "true", "2026-11-22", "0x1F", "_", "012"]
    rules = [rule(name=name, group_name=name, topic=name) for name in names]
    found = loaded(rules_file("acme", rules))
    assert [each["alert"] for each in found] == names
    assert f'group="{names[0]}"' in found[0]["expr"]


def test_what_prometheus_does_otherwise_is_reported(rule: Rule) -> None:
    text = rules_file(
        "acme",
        [
            rule(name="silent", is_enabled=False),
            rule(name="muted", muted_until_ms=NOW_MS),
            rule(name="disk", kind="disk", group_name=""),
        ],
    )
    assert [each["alert"] for each in loaded(text)] == ["muted", "disk"]
    comments = [line.strip() for line in text.splitlines() if line.strip().startswith("#")]
    assert "# silent is off, and not in here." in comments
    assert any("Muted until 2030-03-17T17:46:40.000Z" in line for line in comments)
    assert any("engine's own /metrics" in line for line in comments)
    assert any("GET /v1/ns/acme/metrics" in line for line in comments)


def test_without_rules_the_file_is_one_that_prometheus_takes(rule: Rule) -> None:
    assert loaded(rules_file("acme", [])) == []
    assert loaded(rules_file("acme", [rule(is_enabled=False)])) == []


def test_a_viewer_downloads_the_rules_of_the_namespace_only(
    people: People, rule: Rule, api: Api
) -> None:
    rule(emails=["a@x.example"], webhook_url="https://hooks.example/secret")
    other = ConsumerGroup.objects.create(namespace=people.rival, name="secret")
    rule(namespace=people.rival, name="theirs", group_name=other.name)
    answer = api(people.acme_viewer_key).get("/v1/ns/acme/alerts.yaml")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/yaml")
    assert answer["Content-Disposition"] == 'attachment; filename="acme-alerts.yaml"'
    text = answer.content.decode()
    assert [each["alert"] for each in loaded(text)] == ["slow"]
    assert ".example" not in text
    assert api(people.rival_key).get("/v1/ns/acme/alerts.yaml").status_code == 404
