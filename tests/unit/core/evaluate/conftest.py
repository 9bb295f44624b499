"""Documents in, results out: ``decide(jobs=[…], …)`` gives the result as JSON has it."""

import json

import msgspec
import pytest

from rankd.config.evaluation import Evaluator
from rankd.core.errors import ConfigurationError

NOW = 1_700_000_000.0


class Decision(dict):
    """A result, with its rows by name."""

    @property
    def by_id(self):
        return {row["id"]: row for row in self["jobs"]}

    @property
    def by_path(self):
        return {row["path"]: row for row in self["queues"]}

    @property
    def shares(self):
        return {(row["account"], row["user"]): row for row in self["associations"]}

    @property
    def codes(self):
        return {row["job"]: row["code"] for row in self["rejected"]}

    def factor(self, job, name):
        return next(row for row in self.by_id[job]["factors"] if row["name"] == name)

    def reason(self, job):
        return self.by_id[job]["reason"]


def evaluate(document):
    """The result of a document, which is encoded on the way as users do it."""
    return Decision(msgspec.json.decode(msgspec.json.encode(Evaluator().evaluate(json.dumps(document).encode()))))


def problems(document):
    """The paths of what is wrong with a document, and nothing else: it must be refused."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(ConfigurationError) as caught:
        Evaluator().evaluate(text)
    return [problem.path for problem in caught.value.problems]


@pytest.fixture
def decide():
    return lambda **sections: evaluate({"now": NOW, **sections})


@pytest.fixture
def refuse():
    """The paths of the problems; a document or its sections."""
    return lambda document=None, **sections: problems({"now": NOW, **sections} if document is None else document)


@pytest.fixture
def tree():
    """A partition's queues: ``tree({"name": "a"}, …)`` below root, with root's own properties."""

    def build(*queues, **properties):
        root = {"name": "root", "queues": list(queues)}
        if properties:
            root["properties"] = {name.replace("_", "."): value for name, value in properties.items()}
        return {"partitions": [{"name": "default", "queues": [root]}]}

    return build
