"""Lines of keys in rankd.toml."""

from pathlib import Path

import pytest

from rankd.config.settings import read_settings
from rankd.config.toml_lines import key_lines, with_lines
from rankd.core.errors import ConfigurationError, Problem

TEXT = '''# [priority]
default_qos = "gone"   # = [

[priority.weights]
age = 1
"resource.gpu" = """
]"""
agee = 2

[admission]
admins = [
  "root",
  "*",  # ]
]
[[qos]]
name = "a"
[[qos]]
name = 'a'
wrong = { x = 1 }
'''


def problems(text):
    with pytest.raises(ConfigurationError) as caught:
        read_settings(text, ["age", "fairshare"])
    return [(problem.line, problem.path) for problem in caught.value.problems]


def test_errors_have_the_lines_of_their_keys():
    assert problems(TEXT) == [
        (6, "priority.weights.resource.gpu"), (19, "qos[1].wrong"), (11, "admission.admins"),
    ]  # fmt: skip
    whole = TEXT.replace('"""\n]"""', "1").replace("wrong = { x = 1 }", "")
    assert problems(whole) == [
        (6, "priority.weights.resource.gpu"), (7, "priority.weights.agee"), (17, "qos[1].name"), (2, "default_qos"),
        (10, "admission.admins"),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb 2\n", 2), ("a = 1\n[x\n", 2), ("a = [\n1,\n", 2)])
def test_what_is_no_toml_has_its_line(text, line):
    assert problems(text) == [(line, "")]


def test_what_has_no_key_has_the_line_of_what_is_around_it_or_none():
    found = with_lines([Problem(path=path, message="m") for path in ("qos[1].users", "nats.replicas", "qos[7]")], TEXT)
    assert [problem.line for problem in found] == [17, 0, 15]


def test_the_shipped_configuration_has_all_its_tables():
    lines = key_lines((Path(__file__).parents[3] / "config" / "rankd.toml").read_text())
    assert {"priority", "priority.weights.age", "scheduling", "qos[0].name"} <= lines.keys()


def test_a_long_list_costs_its_size():
    text = f"[nodes]\nknown = {{ {', '.join(f'n{i} = {{}}' for i in range(20_000))} }}\n[nats]\nreplicas = 2\n"
    assert key_lines(text)["nats.replicas"] == 4
