import json

import msgspec

from rankd.config.evaluation import Evaluator
from rankd.core.evaluate.anonymise import anonymised

DOCUMENT = {
    "now": 1000.0,
    "queues": {
        "partitions": [
            {
                "name": "marble",
                "placementrules": [{"name": "fixed", "value": "root.quarry"}],
                "limits": [{"users": ["hypatia", "*"], "maxresources": {"vcore": 64}}],
                "queues": [
                    {
                        "name": "root",
                        "submitacl": "hypatia,euclid geometers",
                        "queues": [{"name": "Quarry"}, {"name": "temple", "adminacl": "*"}],
                    }
                ],
            }
        ]
    },
    "priority_classes": [{"name": "oracle", "value": 7, "description": "of delphi", "global_default": False}],
    "qos": [{"name": "bronze", "priority": 1, "users": ["euclid"], "groups": ["geometers"]}],
    "associations": [
        {"account": "academy"},
        {"account": "academy", "user": "hypatia", "shares": 2.0},
        {"account": "academy", "user": "euclid"},
    ],
    "access": {"classes": {"oracle": {"users": ["hypatia"]}}, "accounts": {"academy": {"groups": ["geometers"]}}},
    "nodes": [
        {"name": "athens", "partition": "marble", "capacity": {"vcore": 4}, "labels": {"stone": "paros"}},
        {"name": "sparta", "partition": "marble", "capacity": {"vcore": 4}, "labels": {}},
    ],
    "applications": [{"id": "proof", "queue": "root.Quarry", "partition": "marble", "created_at": 5.0}],
    "jobs": [
        {
            "id": 1,
            "user": "hypatia",
            "account": "academy",
            "queue": "root.quarry",
            "partition": "marble",
            "qos": "bronze",
            "priority_class": "oracle",
            "application": "proof",
            "groups": ["geometers"],
            "constraints": "stone=paros, rankd/node notin (sparta), !rust",
            "command": ["cone", "--secret"],
            "cwd": "/home/hypatia",
            "env": {"TOKEN": "hush"},
            "stdout": "/scratch/out",
            "comment": "for ptolemy",
            "name": "sections",
            "depends_on": [{"type": "singleton"}],
            "resources": {"vcore": 2},
            "submitted_at": 10.0,
            "eligible_at": 10.0,
        },
        {
            "id": 2,
            "user": "euclid",
            "account": "academy",
            "queue": "root.temple",
            "partition": "marble",
            "qos": "bronze",
            "name": "elements",
            "resources": {"vcore": 3},
            "submitted_at": 20.0,
        },
    ],
    "allocations": [],
}
NAMES = [
    "hypatia",
    "euclid",
    "geometers",
    "academy",
    "marble",
    "quarry",
    "temple",
    "oracle",
    "delphi",
    "bronze",
    "athens",
    "sparta",
    "stone",
    "paros",
    "rust",
    "proof",
    "cone",
    "secret",
    "home",
    "hush",
    "token",
    "scratch",
    "ptolemy",
    "sections",
    "elements",
]


def test_no_name_is_left():
    text = json.dumps(anonymised(DOCUMENT)).lower()
    assert [name for name in NAMES if name in text] == []


def test_a_field_that_is_not_known_is_left_out():
    job = {**DOCUMENT["jobs"][1], "new_field": "hypatia"}
    assert "hypatia" not in json.dumps(anonymised({**DOCUMENT, "jobs": [job], "notes": "hypatia"}))


def test_pseudonyms_are_the_same_everywhere_and_sort_as_the_names():
    made = anonymised(DOCUMENT)
    first, second = made["jobs"]
    users = {row["user"]: row for row in made["associations"] if "user" in row}
    assert set(users) == {first["user"], second["user"]}
    assert first["user"] > second["user"], "as hypatia > euclid"
    assert made["nodes"][0]["name"] < made["nodes"][1]["name"]
    assert first["queue"] == made["applications"][0]["queue"].lower() == "root.queue1", "queues ignore case"
    assert made["queues"]["partitions"][0]["queues"][0]["submitacl"] == f"{first['user']},{second['user']} group1"


def test_evaluate_decides_the_same():
    def decided(document):
        result = msgspec.to_builtins(Evaluator().evaluate(msgspec.json.encode(document)))
        return [(job["id"], job.get("rank"), job.get("priority"), job.get("reason")) for job in result["jobs"]]

    assert decided(anonymised(DOCUMENT)) == decided(DOCUMENT)
