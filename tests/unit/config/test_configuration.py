"""What the files of a configuration directory say about each other."""

import json
import subprocess
import sys

import pytest

from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator
from rankd.core.errors import ConfigurationError
from rankd.core.model.access import AccessList

QUEUES = """
partitions:
  - name: default
    limits: [{groups: [dev, ghosts], maxapplications: 1}]
    queues:
      - name: root
        queues:
          - {name: a, submitacl: "alice dev", adminacl: " ops,dev"}
          - {name: b, submitacl: "*", limits: [{groups: [dev, "*"], maxapplications: 1}]}
"""


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "queues.yaml").write_text(QUEUES)
    (tmp_path / "accounts.yaml").write_text("groups: [{name: dev, users: [dora]}]")
    return tmp_path


def test_groups_that_are_not_listed_are_warned_about(directory):
    (directory / "rankd.toml").write_text('[admission]\nhost_groups = "none"\n')
    warnings = load_configuration(directory).warnings
    assert [(found.file, found.path, found.message.split("'")[1]) for found in warnings] == [
        ("queues.yaml", "root", "ghosts"),
        ("queues.yaml", "root.a", "ops"),
    ]


def test_the_groups_of_a_configuration_are_those_of_a_documents_jobs_that_name_none(directory):
    jobs = [
        {"id": 1, "queue": "root.a", "user": "dora"},
        {"id": 2, "queue": "root.a", "user": "dora", "groups": ["others"]},
        {"id": 3, "queue": "root.a", "user": "eve"},
    ]
    document = {"now": 1.0, "jobs": jobs, "unknown_association": "zero"}
    rejected = Evaluator(load_configuration(directory)).evaluate(json.dumps(document).encode()).rejected
    assert [(found.job, found.code) for found in rejected] == [(2, "queue_access"), (3, "queue_access")]


THREADS = """
import sys, threading
from pathlib import Path
from rankd.config.configuration import load_configuration
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)
def load():
    together.wait()
    load_configuration(Path(sys.argv[1]))
threads = [threading.Thread(target=load) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("all loaded")
"""


def test_threads_may_be_the_first_to_load_one_together(directory):
    """In a process of its own: where two were the first to convert to a struct, the interpreter crashed."""
    child = subprocess.run([sys.executable, "-c", THREADS, directory], check=False, capture_output=True, text=True)
    assert (child.returncode, child.stdout) == (0, "all loaded\n"), child.stderr


def test_queues_that_no_list_opens_are_warned_about(tmp_path):
    shown = "partitions: [{name: default, queues: [{name: root, queues: [%s]}]}]"
    queues = (
        "{name: a, submitacl: '*'}, {name: b}, {name: c, submitacl: ' '}, {name: d, adminacl: ' ', queues: [{name: e}]}"
    )
    (tmp_path / "queues.yaml").write_text(shown % queues)
    [warning] = load_configuration(tmp_path).warnings
    assert (warning.path, "so only administrators may submit here" in warning.message) == ("root.b", True)
    (tmp_path / "queues.yaml").write_text(shown % "{name: a}, {name: b}")
    assert load_configuration(tmp_path).warnings == ()


def test_a_queue_that_all_users_administer_is_warned_about(tmp_path):
    shown = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [%s]}]}]"
    (tmp_path / "queues.yaml").write_text(shown % "{name: a, adminacl: '*'}, {name: b, adminacl: ann}")
    [warning] = load_configuration(tmp_path).warnings
    assert (warning.path, "lets every user hold, change and cancel" in warning.message) == ("root.a", True)


# --- access lists of QoS, classes and accounts -----------------------------------------------------------------------

CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent
  annotations: {rankd/users: "alice, bob", rankd/groups: "ops", example.org/other: x}
value: 10
"""


@pytest.fixture
def listed(tmp_path):
    (tmp_path / "rankd.toml").write_text(
        '[admission]\nhost_groups = "none"\n'
        '[[qos]]\nname = "normal"\n[[qos]]\nname = "high"\ngroups = ["ops", "nobody"]\n'
    )
    (tmp_path / "priorityclasses.yaml").write_text(CLASSES)
    (tmp_path / "accounts.yaml").write_text(
        "accounts: [{name: physics, users: [{name: alice}], access: {groups: [ops]}}]\n"
        "groups: [{name: ops, users: [olga]}]\n"
    )
    return tmp_path


def test_access_lists_are_read_from_all_three_files(listed):
    found = load_configuration(listed)
    assert found.access.classes == {"urgent": AccessList(users=["alice", "bob"], groups=["ops"])}
    assert found.access.accounts == {"physics": AccessList(groups=["ops"])}
    assert [(qos.name, qos.users, qos.groups) for qos in found.settings.qos] == [
        ("normal", None, None),
        ("high", None, ["ops", "nobody"]),
    ]
    assert [str(warning) for warning in found.warnings] == [
        "rankd.toml: groups: qos 'high' names the group 'nobody', which is not in accounts.yaml"
    ]


def test_unknown_groups_of_administrators_and_operators_are_warned_about(listed):
    text = '[admission]\nadmin_groups = ["ops", "wheel"]\noperator_groups = ["night"]\n[[qos]]\nname = "normal"\n'
    (listed / "rankd.toml").write_text(text)
    assert [str(warning).split(", which")[0] for warning in load_configuration(listed).warnings] == [
        "rankd.toml: groups: admission.admin_groups names the group 'wheel'",
        "rankd.toml: groups: admission.operator_groups names the group 'night'",
    ]


def test_a_group_without_users_is_known_to_lists(listed):
    (listed / "accounts.yaml").write_text("groups: [{name: ops}, {name: nobody}]\n")
    assert load_configuration(listed).warnings == ()


def test_a_default_that_others_may_not_use_is_warned_about(listed):
    (listed / "rankd.toml").write_text('[[qos]]\nname = "normal"\nusers = ["alice"]\n')
    (listed / "priorityclasses.yaml").write_text(f"{CLASSES}globalDefault: true\n")
    assert [str(warning) for warning in load_configuration(listed).warnings] == [
        "rankd.toml: default_qos: 'normal' has an access list: jobs of other users who name no QoS are refused",
        (
            "priorityclasses.yaml: globalDefault: 'urgent' has an access list: "
            "jobs of other users who name no class are refused"
        ),
    ]


def test_what_is_not_a_list_is_an_error_with_its_place(listed):
    (listed / "rankd.toml").write_text('[[qos]]\nname = "normal"\nusers = "alice"\n')
    (listed / "priorityclasses.yaml").write_text(CLASSES.replace("rankd/users", "rankd/user"))
    (listed / "accounts.yaml").write_text("accounts: [{name: physics, access: {user: [alice]}}]\n")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(listed)
    assert [(problem.file, problem.path) for problem in caught.value.problems] == [
        ("rankd.toml", "qos[0].users"),
        ("accounts.yaml", "accounts[0].access.user"),
        ("priorityclasses.yaml", "metadata.annotations.rankd/user"),
    ]


def test_a_documents_jobs_are_checked_against_the_configurations_lists(listed):
    jobs = [
        {"id": 1, "user": "olga", "qos": "high", "priority_class": "urgent", "account": "physics"},
        {"id": 2, "user": "eve", "qos": "high"},
        {"id": 3, "user": "eve", "priority_class": "urgent"},
        {"id": 4, "user": "eve", "account": "physics"},
    ]
    document = {"now": 1.0, "jobs": jobs, "unknown_association": "zero"}
    rejected = Evaluator(load_configuration(listed)).evaluate(json.dumps(document).encode()).rejected
    assert [(found.job, found.code) for found in rejected] == [
        (2, "qos_access"),
        (3, "class_access"),
        (4, "account_access"),
    ]
