import msgspec
import pytest

from rankd.config.queues import check_queues

QUEUES = [
    {
        "name": "root",
        "queues": [
            {"name": "Users", "parent": True},
            {"name": "teams", "queues": [{"name": "red"}]},
            {"name": "default"},
        ],
    }
]


def rule(name="user", **fields):
    return {"name": name, **fields}


def fixed(value, **fields):
    return rule("fixed", value=value, **fields)


def error_paths(*rules):
    document = {"partitions": [{"queues": QUEUES, "placementrules": list(rules)}]}
    errors = check_queues(msgspec.json.encode(document).decode()).errors
    return [found.path.removeprefix("partitions[0].placementrules") for found in errors]


@pytest.mark.parametrize("name", ["user", "_tag", "fixed9"])
def test_rule_names_are_identifiers(name):
    assert error_paths(rule(name, value="default")) == []


@pytest.mark.parametrize("name", ["", None, "#fixed", "1234", "a-b"])
def test_other_rule_names_are_errors_in_parents_too(name):
    assert error_paths(rule(name)) == ["[0].name"]
    assert error_paths(rule(parent=rule(parent=rule(name)))) == ["[0].parent.parent.name"]


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ({"type": "Allow", "users": ["a", "b!"]}, []),
        ({"type": "DENY", "users": ["a.*"], "groups": ["g|h"]}, []),
        ({"type": ""}, []),
        ({"type": "maybe"}, ["[0].filter.type"]),
        ({"users": [""]}, ["[0].filter.users"]),
        ({"users": ["a b"]}, ["[0].filter.users"]),
        ({"users": ["a("]}, ["[0].filter.users"]),
        ({"groups": ["g "]}, ["[0].filter.groups"]),
        ({"groups": ["g ", "h "]}, []),
    ],
)
def test_filters_allow_or_deny_names_or_one_expression(given, paths):
    assert error_paths(rule(filter=given)) == paths


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        (fixed("root.default"), []),
        (fixed("DEFAULT"), []),
        (fixed("teams.red"), []),
        (fixed("red", parent=fixed("teams")), []),
        (fixed("root.users"), ["[0]"]),
        (rule(parent=fixed("root.users")), []),
        (rule(parent=fixed("teams")), []),
        (rule(parent=fixed("default")), ["[0]"]),
        (fixed("nowhere"), ["[0]"]),
        (fixed("nowhere", create=True), []),
        (fixed("users.alice"), ["[0]"]),
        (fixed("users.alice", create=True), []),
        (fixed("default.x", create=True), ["[0]"]),
        (fixed("root.default", parent=fixed("teams")), ["[0].value"]),
        (fixed("anything", parent=rule()), []),
        (rule(), []),
    ],
)
def test_fixed_rules_lead_to_queues(given, paths):
    assert error_paths(given) == paths
