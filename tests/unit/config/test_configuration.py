"""What the files of a configuration directory say about each other."""

import json
import subprocess
import sys

import pytest

from rankd.config.configuration import load_configuration
from rankd.config.evaluation import Evaluator

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
    (tmp_path / "accounts.yaml").write_text("groups: [{name: dev, users: [dora]}, {name: ops}]")
    return tmp_path


def test_groups_that_nobody_is_in_are_warned_about(directory):
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
