import pytest

from rankd.config.configuration import group_lists, load_configuration
from rankd.config.named_group import missing_groups, unlisted_groups

SETTINGS = """
[admission]
admin_groups = ["wheel"]
operator_groups = ["night"]
host_groups = "RULE"
[[qos]]
name = "normal"
[[qos]]
name = "high"
groups = ["optics"]
"""
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "* "
        queues:
          - name: a
            submitacl: " staff"
            adminacl: " chiefs"
            limits: [{limit: l, groups: [students], maxapplications: 5}]
"""


def lists(tmp_path, rule):
    (tmp_path / "rankd.toml").write_text(SETTINGS.replace("RULE", rule))
    (tmp_path / "queues.yaml").write_text(QUEUES)
    (tmp_path / "accounts.yaml").write_text("groups: [{name: optics}]\n")
    configuration = load_configuration(tmp_path)
    return group_lists(configuration), configuration.group_names


def groups_in(problems):
    return [problem.message.split("'")[1 if "qos" not in problem.message else 3] for problem in problems]


@pytest.mark.parametrize(
    ("rule", "unlisted", "missing"),
    [
        ("none", ["staff", "chiefs", "students", "wheel", "night"], []),
        ("users", ["chiefs", "wheel", "night"], ["students"]),
        ("all", [], ["chiefs", "students", "wheel", "night"]),
    ],
)
def test_a_group_that_can_have_no_users_is_warned_about(tmp_path, rule, unlisted, missing):
    found, known = lists(tmp_path, rule)
    assert groups_in(unlisted_groups(found, known)) == unlisted
    assert groups_in(missing_groups(found, known, lambda group: group == "staff")) == missing


def test_the_warning_says_what_would_let_a_group_of_the_host_count(tmp_path):
    found, known = lists(tmp_path, "users")
    messages = [problem.message for problem in unlisted_groups(found, known)]
    assert all(message.endswith('unless admission.host_groups is "all"') for message in messages)
