from pathlib import Path

import msgspec
import pytest

from rankd.config.queue_property import parse_offset
from rankd.config.queues import check_queues, read_queue_document, read_queues
from rankd.core.errors import ConfigurationError
from rankd.core.model.queue import ChildTemplate, Limit, make_child

SHIPPED = Path(__file__).parents[3] / "config" / "queues.yaml"


def in_root(*queues, **root):
    """A document with these queues below root, as JSON; which is YAML too."""
    return in_partition({"name": "root", **root, "queues": list(queues)})


def in_partition(*tops, **partition):
    return {"partitions": [{"name": "default", "queues": list(tops), **partition}]}


def leaf(name="a", **fields):
    return {"name": name, **fields}


def resources(**fields):
    return {"resources": fields}


def read(document):
    return read_queue_document(document, "").partitions[0]


def errors(document):
    """Path and message of every error, from the text, so that both ways of reading are tried."""
    text = document if isinstance(document, str) else msgspec.json.encode(document).decode()
    return [(found.path, found.message) for found in check_queues(text).errors]


def error_paths(document):
    return [path.removeprefix("partitions[0].").replace("queues[0].queues", "root", 1) for path, _ in errors(document)]


def codes(document):
    text = document if isinstance(document, str) else msgspec.json.encode(document).decode()
    checked = check_queues(text)
    assert checked.errors == ()
    return [found.code for found in checked.warnings]


def first(document):
    """The first queue below root."""
    return read(document).root.queues[0]


# the file


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "partitions:\n", "partitions: []\n"])
def test_an_empty_file_has_no_partitions(text):
    assert read_queues(text).partitions == ()


@pytest.mark.parametrize("text", ["5", "- a", "text"])
def test_a_file_that_is_no_mapping_is_refused(text):
    assert len(errors(text)) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("partitions: [\n  a: b", 2),
        ("partitions:\n\t- name: a", 2),
        ("a: *missing", 1),
        ("partitions: []\n---\npartitions: []\n", 3),
        ("partitions: []\n# \x01", 2),
        ("? [a]\n: b", 1),
        ("a: &a [*a]", 1),
        ("a: {<<: 5}", 1),
        ("[" * 5000, 0),
        ("[" * 150 + "]" * 150, 1),
        (
            "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"{k}: &{k} [{','.join([f'*{p}'] * 10)}]\n" for p, k in zip("abcdef", "bcdefg", strict=True)),
            6,
        ),
    ],
)
def test_a_text_that_is_no_sound_yaml_is_refused_with_its_line(text, line):
    checked = check_queues(text)
    assert not checked.valid
    assert line in {found.line for found in checked.errors}


def test_every_problem_is_told_at_once_with_path_and_line():
    text = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: a.b
          - name: b
            resources:
              max: {vcore: -1}
            properties:
              priority.offset: high
            typo: 1
"""
    checked = check_queues(text)
    below = "partitions[0].queues[0].queues"
    assert [(found.path, found.line) for found in checked.errors] == [
        (f"{below}[0].name", 6),
        (f"{below}[1].resources.max.vcore", 9),
        (f"{below}[1].typo", 12),
    ]
    assert [(found.path, found.line) for found in checked.warnings] == [(f"{below}[1].properties.priority.offset", 11)]
    with pytest.raises(ConfigurationError) as caught:
        read_queues(text, "q.yaml")
    assert str(caught.value.problems[0]).startswith(f"q.yaml:6: {below}[0].name: 'a.b' is not a valid queue name")


def test_a_decoded_document_is_read_as_its_text_is():
    document = in_root(
        leaf(
            "A",
            **resources(max={"vcore": 4, "memory": "8Gi"}),
            properties={"priority.offset": -5, "priority.factor": 0.5},
            limits=[{"users": ["*"], "maxapplications": 3}],
        )
    )
    assert read_queue_document(document) == read_queues(msgspec.json.encode(document).decode())
    with pytest.raises(ConfigurationError) as caught:
        read_queue_document({"partition": []})
    assert [problem.path for problem in caught.value.problems] == ["queues.partition"]


def test_a_document_nested_beyond_reason_is_refused():
    document = []
    for _ in range(200):
        document = [document]
    with pytest.raises(ConfigurationError):
        read_queue_document(document)


def test_anchors_aliases_and_merges_work():
    text = """\
partitions:
  - queues:
      - name: root
        queues:
          - &a {name: a, maxapplications: 2, submitacl: "x"}
          - {<<: *a, name: b}
          - <<: [{name: c, maxapplications: 7}, *a]
"""
    queues = read_queues(text).partitions[0].root.queues
    assert [(queue.name, queue.maxapplications, queue.submitacl) for queue in queues] == [
        ("a", 2, "x"),
        ("b", 2, "x"),
        ("c", 7, "x"),
    ]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"partition": []}, "partition"),
        (in_partition(leaf("root"), nodeSortPolicy={}), "nodeSortPolicy"),
        (in_root(leaf(weight=1)), "root[0].weight"),
        (in_root(leaf(resources={"min": {}})), "root[0].resources.min"),
        (in_root(leaf(childtemplate={"queues": []})), "root[0].childtemplate.queues"),
        (in_root(leaf(limits=[{"users": ["a"], "maxapplications": 1, "x": 1}])), "root[0].limits[0].x"),
        (in_partition(leaf("root"), nodesortpolicy={"weights": {}}), "nodesortpolicy.weights"),
        (in_partition(leaf("root"), preemption={"x": True}), "preemption.x"),
        (in_partition(leaf("root"), placementrules=[{"name": "user", "x": 1}]), "placementrules[0].x"),
        ("partitions: [{queues: [{name: root, name: root}]}]", "queues[0].name"),
    ],
)
def test_unknown_and_repeated_keys_are_errors(document, path):
    assert path in error_paths(document)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (in_root(leaf(maxapplications="5")), "root[0].maxapplications"),
        (in_root(leaf(maxapplications=-1)), "root[0].maxapplications"),
        (in_root(leaf(maxapplications=1.5)), "root[0].maxapplications"),
        (in_root(leaf(maxapplications=2**64)), "root[0].maxapplications"),
        (in_root(leaf(maxapplications=[1])), "root[0].maxapplications"),
        (in_root(leaf(parent="true")), "root[0].parent"),
        (in_root(leaf(parent=1)), "root[0].parent"),
        (in_root(leaf(queues={})), "root[0].queues"),
        (in_root(leaf(resources=[])), "root[0].resources"),
        (in_root(leaf(resources={"max": {"vcore": [1]}})), "root[0].resources.max.vcore"),
        (in_root(leaf(properties="fifo")), "root[0].properties"),
        (in_root(leaf(properties={"priority.offset": [1]})), "root[0].properties.priority.offset"),
        (in_root(leaf(limits=[{"users": "a", "maxapplications": 1}])), "root[0].limits[0].users"),
        (in_root("a"), "root[0]"),
        ({"partitions": {}}, "partitions"),
        (
            in_partition(leaf("root"), nodesortpolicy={"resourceweights": {"vcore": "x"}}),
            "nodesortpolicy.resourceweights.vcore",
        ),
        (
            in_partition(leaf("root"), nodesortpolicy={"resourceweights": {"vcore": "1"}}),
            "nodesortpolicy.resourceweights.vcore",
        ),
        (
            "partitions: [{queues: [], nodesortpolicy: {resourceweights: {vcore: .inf}}}]",
            "nodesortpolicy.resourceweights.vcore",
        ),
        (in_partition(leaf("root"), preemption={"enabled": "no way"}), "preemption.enabled"),
    ],
)
def test_values_of_another_type_are_errors(document, path):
    assert path in error_paths(document)


@pytest.mark.parametrize(
    "key",
    ["parent", "resources", "maxapplications", "properties", "adminacl", "childtemplate", "queues", "limits"],
)
def test_null_is_as_if_not_given(key):
    assert first(in_root(leaf(**{key: None}))) == first(in_root(leaf()))


@pytest.mark.parametrize(
    ("word", "expected"),
    [("true", True), ("yes", True), ("On", True), ("false", False), ("no", False), ("", False)],
)
def test_flags_are_yaml_bools(word, expected):
    assert (
        read_queues(f"partitions: [{{queues: [{{name: a, parent: {word}}}]}}]").partitions[0].root.queues[0].parent
        == expected
    )


# partitions


def test_partition_names_are_unique_ignoring_case_and_default_to_default():
    two = {"partitions": [{"queues": []}, {"name": "Gpu", "queues": []}]}
    assert [partition.name for partition in read_queue_document(two).partitions] == ["default", "Gpu"]
    for name in ("", None, "default", "DEFAULT"):
        two["partitions"][1]["name"] = name
        assert [path for path, _ in errors(two)] == ["partitions[1].name"]


@pytest.mark.parametrize("partition", [{}, {"queues": None}])
def test_a_partition_needs_queues(partition):
    assert [path for path, _ in errors({"partitions": [partition]})] == ["partitions[0].queues"]


@pytest.mark.parametrize(
    ("tops", "paths"),
    [
        ([], []),
        ([leaf("root")], []),
        ([leaf("ROOT", queues=[leaf("a")])], ["ROOT.a"]),
        ([leaf("a")], ["root.a"]),
        ([leaf("a"), leaf("b")], ["root.a", "root.b"]),
        ([leaf("root"), leaf("b")], ["root.root", "root.b"]),
    ],
)
def test_a_root_is_put_above_unless_the_one_top_queue_is_root(tops, paths):
    root = read(in_partition(*tops)).root
    assert root.name.lower() == "root"
    assert [queue.path for queue in root.queues] == paths


def test_root_is_no_leaf_even_alone():
    assert read(in_partition(leaf("root", parent=False))).root.parent
    assert read(in_partition()).root.parent


@pytest.mark.parametrize("kind", ["max", "guaranteed"])
@pytest.mark.parametrize("amounts", [{"vcore": 1}, {}])
def test_root_has_no_resources(kind, amounts):
    assert "queues[0].resources" in error_paths(in_root(leaf(), resources={kind: amounts}))
    assert errors(in_root(leaf(), resources={})) == []


@pytest.mark.parametrize(
    ("given", "expected"), [(None, "fair"), ("", "fair"), ("fair", "fair"), ("binpacking", "binpacking")]
)
def test_node_sorting_policies(given, expected):
    assert read(in_partition(leaf("root"), nodesortpolicy={"type": given})).nodesort.type == expected


@pytest.mark.parametrize("given", ["Fair", "BINPACKING", "random"])
def test_unknown_node_sorting_policies_are_errors(given):
    assert error_paths(in_partition(leaf("root"), nodesortpolicy={"type": given})) == ["nodesortpolicy.type"]


def test_node_sorting_weights_are_at_least_0_and_default_to_vcore_and_memory():
    def weights(given):
        return read(in_partition(leaf("root"), nodesortpolicy={"resourceweights": given})).nodesort.resourceweights

    assert weights({"vcore": 4, "gpu": 0.5}) == {"vcore": 4.0, "gpu": 0.5}
    assert weights({}) == weights(None) == {"vcore": 1.0, "memory": 1.0}
    negative = in_partition(leaf("root"), nodesortpolicy={"resourceweights": {"gpu": -0.1}})
    assert error_paths(negative) == ["nodesortpolicy.resourceweights.gpu"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("placementrules", [{"name": "user", "create": True}]),
        ("preemption", {"enabled": True, "quotapreemptionenabled": False}),
        ("statedumpfilepath", "/tmp/dump"),
        ("usergroupresolver", {"type": "os"}),
    ],
)
def test_keys_that_rankd_does_not_use_are_taken_with_a_warning_that_names_them(key, value):
    checked = check_queues(msgspec.json.encode(in_partition(leaf("root"), **{key: value})).decode())
    assert checked.valid
    assert [(found.path, found.code) for found in checked.warnings] == [(f"partitions[0].{key}", "unused_key")]
    assert key in checked.warnings[0].message


# queues


@pytest.mark.parametrize("name", ["a", "A9", "_:#/@-", "x" * 64])
def test_queue_names(name):
    queue = first(in_root(leaf(name)))
    assert (queue.name, queue.path) == (name, f"root.{name}")


@pytest.mark.parametrize("name", ["", None, "a.b", "a b", "a$", "x" * 65, "é", "a\n"])
def test_other_queue_names_are_errors(name):
    assert error_paths(in_root(leaf(name))) == ["root[0].name"]


def test_siblings_are_unique_ignoring_case():
    assert error_paths(in_root(leaf("a"), leaf("b"), leaf("A"))) == ["root[2].name"]
    assert errors(in_root(leaf("a", queues=[leaf("b")]), leaf("b", queues=[leaf("a")]))) == []


def test_queues_without_children_are_leaves_unless_they_say_parent():
    document = in_root(
        leaf("a"),
        leaf("b", parent=True),
        leaf("c", queues=[leaf()]),
        leaf("d", parent=False, queues=[leaf()]),
    )
    assert [queue.parent for queue in read(document).root.queues] == [False, True, True, True]


@pytest.mark.parametrize("key", ["submitacl", "adminacl"])
@pytest.mark.parametrize(
    ("acl", "sound"),
    [
        ("", True),
        ("*", True),
        ("a,b", True),
        ("a,b g,h", True),
        (" g", True),
        ("a b c", False),
        ("a  b\tc", False),
    ],
)
def test_acls_have_at_most_two_fields(key, acl, sound):
    document = in_root(leaf(**{key: acl}))
    assert error_paths(document) == ([] if sound else [f"root[0].{key}"])
    if sound:
        assert getattr(first(document), key) == acl


# resources


def test_quantities_keep_zeros_beside_others_and_all_zeros_count_as_not_set():
    queue = first(
        in_root(leaf(**resources(max={"vcore": "500m", "memory": "0"}, guaranteed={"vcore": 0, "memory": "0"})))
    )
    assert queue.max == {"vcore": 500, "memory": 0}
    assert queue.guaranteed == {}


@pytest.mark.parametrize("quantity", ["", None, "-1", "ten", "1K", "500m", 0.5, True])
@pytest.mark.parametrize("kind", ["max", "guaranteed"])
def test_bad_quantities_are_errors(kind, quantity):
    assert error_paths(in_root(leaf(**resources(**{kind: {"memory": quantity}})))) == [
        f"root[0].resources.{kind}.memory"
    ]


def max_of(memory, *queues, **more):
    return {**resources(max={"memory": memory, **more}), "queues": list(queues)}


def guaranteed(memory, *queues, **more):
    return {**resources(guaranteed={"memory": memory, **more}), "queues": list(queues)}


@pytest.mark.parametrize(
    ("document", "paths"),
    [
        # guaranteed and own max
        (in_root(leaf(**resources(max={"memory": 5}, guaranteed={"memory": 5, "gpu": 9}))), []),
        (
            in_root(leaf(**resources(max={"memory": 5}, guaranteed={"memory": 6}))),
            ["root[0].resources.guaranteed"],
        ),
        (in_root(leaf(**resources(max={"memory": 0}, guaranteed={"memory": 6}))), []),
        (
            in_root(leaf(**resources(max={"memory": 0, "gpu": 1}, guaranteed={"memory": 6}))),
            ["root[0].resources.guaranteed"],
        ),
        # max and the nearest max above
        (in_root(leaf(**max_of(5, leaf(**max_of(5, gpu=9))))), []),
        (in_root(leaf(**max_of(5, leaf(**max_of(6))))), ["root[0].queues[0].resources.max"]),
        (
            in_root(leaf(**max_of(5, leaf("b", queues=[leaf(**max_of(6))])))),
            ["root[0].queues[0].queues[0].resources.max"],
        ),
        (
            in_root(leaf(**max_of(5, leaf(**resources(max={"gpu": 1}), queues=[leaf(**max_of(6))])))),
            ["root[0].queues[0].queues[0].resources.max"],
        ),
        # children's guarantees and the own guarantee
        (in_root(leaf(**guaranteed(5, leaf("b", **guaranteed(2)), leaf("c", **guaranteed(3, gpu=9))))), []),
        (in_root(leaf(**guaranteed(5, leaf("b", **guaranteed(3)), leaf("c", **guaranteed(3))))), ["root[0]"]),
        (in_root(leaf(**guaranteed(0, leaf("b", **guaranteed(3))))), []),
        # a queue without a guarantee passes its children's sum up
        (in_root(leaf(**guaranteed(5, leaf("b", queues=[leaf(**guaranteed(6))])))), ["root[0]"]),
        (in_root(leaf(**guaranteed(5, leaf("b", **guaranteed(4, leaf(**guaranteed(4))))))), []),
        # and the own effective max
        (in_root(leaf(**max_of(5, leaf("b", **guaranteed(2)), leaf("c", **guaranteed(3))))), []),
        (in_root(leaf(**max_of(5, leaf("b", **guaranteed(3)), leaf("c", **guaranteed(3))))), ["root[0]"]),
        (
            in_root(leaf(**max_of(5, leaf("b", queues=[leaf("c", **guaranteed(6))])))),
            ["root[0].queues[0]", "root[0]"],
        ),
    ],
)
def test_maxima_and_guarantees_fit_into_each_other(document, paths):
    assert sorted(error_paths(document)) == sorted(paths)


@pytest.mark.parametrize(
    ("above", "own", "sound"),
    [
        (0, 0, True),
        (0, 7, True),
        (5, 5, True),
        (5, 1, True),
        (5, 6, False),
        (5, 0, False),
        (2**64 - 1, 2**64 - 1, True),
    ],
)
def test_under_a_limited_parent_every_child_has_maxapplications(above, own, sound):
    document = in_root(leaf(maxapplications=above, queues=[leaf(maxapplications=own)]))
    assert error_paths(document) == ([] if sound else ["root[0].queues[0].maxapplications"])


def test_maxapplications_of_root_hold_too():
    assert error_paths(in_root(leaf(), maxapplications=1)) == ["root[0].maxapplications"]


# properties


def properties(**values):
    return {key.replace("_", "."): value for key, value in values.items()}


@pytest.mark.parametrize(
    ("name", "value", "field", "expected", "code"),
    [
        ("priority.policy", "fence", "priority_policy", "fence", None),
        ("priority.policy", "FENCE", "priority_policy", "fence", None),
        ("priority.policy", "Default", "priority_policy", "default", None),
        ("priority.policy", "", "priority_policy", "default", None),
        ("priority.policy", "wall", "priority_policy", "default", "bad_property_value"),
        ("priority.offset", "5", "priority_offset", 5, None),
        ("priority.offset", "+5", "priority_offset", 5, None),
        ("priority.offset", -5, "priority_offset", -5, None),
        ("priority.offset", "", "priority_offset", 0, None),
        ("priority.offset", None, "priority_offset", 0, None),
        ("priority.offset", "1_000", "priority_offset", 0, "bad_property_value"),
        ("priority.offset", " 5", "priority_offset", 0, "bad_property_value"),
        ("priority.offset", "2147483648", "priority_offset", 0, "bad_property_value"),
        ("application.sort.priority", "disabled", "sort_priority", False, None),
        ("application.sort.priority", "Disabled", "sort_priority", False, None),
        ("application.sort.priority", "enabled", "sort_priority", True, None),
        ("application.sort.priority", "", "sort_priority", True, None),
        ("application.sort.priority", "off", "sort_priority", True, "bad_property_value"),
        ("application.sort.policy", "fair", "sort_policy", "fair", None),
        ("application.sort.policy", "fifo", "sort_policy", "fifo", None),
        ("application.sort.policy", "", "sort_policy", "fifo", None),
        ("application.sort.policy", "stateaware", "sort_policy", "stateaware", "deprecated"),
        ("application.sort.policy", "Fair", "sort_policy", "fifo", "bad_property_value"),
        ("priority.factor", "2.5", "priority_factor", 2.5, None),
        ("priority.factor", 1e3, "priority_factor", 1000.0, None),
        ("priority.factor", "0", "priority_factor", 0.0, None),
        ("priority.factor", "", "priority_factor", None, None),
        ("priority.factor", "-1", "priority_factor", None, "bad_property_value"),
        ("priority.factor", "nan", "priority_factor", None, "bad_property_value"),
        ("priority.factor", "1e999", "priority_factor", None, "bad_property_value"),
        ("priority.factor", "many", "priority_factor", None, "bad_property_value"),
    ],
)
def test_property_values(name, value, field, expected, code):
    document = in_root(leaf(properties={name: value}))
    assert getattr(first(document).properties, field) == expected
    assert codes(document) == ([code] if code else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("007", 7),
        ("+" + "0" * 30 + "12", 12),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("2147483648", None),
        ("-2147483649", None),
        ("9" * 6000, None),
        ("", None),
        ("+", None),
        ("--1", None),
        ("1.0", None),
        ("1e3", None),
        ("0x10", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("\u0661", None),
    ],
)
def test_offsets_are_read_as_go_reads_a_32_bit_int(text, expected):
    assert parse_offset(text) == expected


def test_a_quoted_and_a_plain_property_value_are_the_same():
    assert (
        read_queues("partitions: [{queues: [{name: a, properties: {priority.offset: 007}}]}]")
        .partitions[0]
        .root.queues[0]
        .properties.priority_offset
        == 7
    )


def sort_priorities(queue):
    return {queue.name: queue.properties.sort_priority} | {
        k: v for child in queue.queues for k, v in sort_priorities(child).items()
    }


def test_only_disabled_is_inherited_and_an_explicit_enabled_turns_it_on_again():
    off, on, bad = ({"application.sort.priority": value} for value in ("disabled", "enabled", "perhaps"))
    tree = in_root(
        leaf(
            "a",
            properties=off,
            queues=[leaf("b"), leaf("c", properties=on, queues=[leaf("d")]), leaf("e", properties=bad)],
        ),
        leaf("f", properties=on),
        leaf("g"),
    )
    expected = {"root": True, "a": False, "b": False, "c": True, "d": True, "e": False, "f": True, "g": True}
    assert sort_priorities(read(tree).root) == expected


def test_other_properties_are_not_inherited():
    given = {
        "priority.policy": "fence",
        "priority.offset": "5",
        "priority.factor": "3",
        "application.sort.policy": "fair",
    }
    parent = first(in_root(leaf(properties=given, queues=[leaf("b")])))
    assert parent.properties.priority_policy == "fence"
    assert parent.queues[0].properties == first(in_root(leaf())).properties


def test_policy_and_offset_of_root_have_no_effect_and_draw_no_message():
    for policy, offset in (("fence", "2147483647"), ("wall", "x")):
        document = in_root(leaf(), properties={"priority.policy": policy, "priority.offset": offset})
        assert codes(document) == []
        assert read(document).root.properties == read(in_root(leaf())).root.properties


@pytest.mark.parametrize("name", ["application.sort.policy", "priority.factor"])
def test_what_works_in_leaves_only_is_warned_about_elsewhere(name):
    value = {"application.sort.policy": "fair", "priority.factor": "1"}[name]
    assert codes(in_root(leaf(properties={name: value}, queues=[leaf()]))) == ["no_effect"]


@pytest.mark.parametrize("name", ["preemption.policy", "preemption.delay", "quota.preemption.delay", "colour"])
def test_properties_that_rankd_does_not_use_are_named_in_a_warning(name):
    checked = check_queues(msgspec.json.encode(in_root(leaf(properties={name: "x"}))).decode())
    assert [found.code for found in checked.warnings] == ["unknown_property"]
    assert name in checked.warnings[0].message


def offset(value, policy="default"):
    return {"properties": {"priority.offset": str(value), "priority.policy": policy}}


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (leaf(**offset(1000)), []),
        (leaf(**offset(1_000_000_000)), []),
        (leaf(**offset(1_000_000_001)), ["offset_lifts"]),
        (leaf(**offset(1_000_000_001, "fence")), ["offset_lifts"]),
        (leaf(**offset(1_147_483_648)), ["offset_clamps"]),
        (leaf(**offset(-1_147_483_648)), []),
        (leaf(**offset(-1_147_483_649)), ["offset_clamps"]),
        (leaf(**offset(600_000_000), queues=[leaf(**offset(600_000_000))]), ["offset_clamps"]),
        (leaf(**offset(500_000_001), queues=[leaf(**offset(500_000_000))]), ["offset_lifts"]),
        (leaf(**offset(500_000_001, "fence"), queues=[leaf(**offset(500_000_000))]), []),
        (leaf(**offset(500_000_001), queues=[leaf(**offset(500_000_000)), leaf("b")]), ["offset_lifts"]),
        (leaf(**offset(500_000_001), queues=[leaf(**offset(-500_000_000))]), []),
        (leaf(parent=True, childtemplate=offset(1_000_000_001)), ["offset_lifts"]),
    ],
)
def test_offsets_that_lead_too_far_are_warned_about(queue, expected):
    assert codes(in_root(queue)) == expected


# child templates


def test_a_queue_made_on_first_use_gets_the_template():
    template = {
        "maxapplications": 3,
        "resources": {"max": {"vcore": 4}, "guaranteed": {"vcore": 1}},
        "properties": {"priority.policy": "fence", "priority.offset": "7", "application.sort.policy": "fair"},
    }
    parent = first(in_root(leaf("users", parent=True, childtemplate=template)))
    child = make_child(parent, "alice")
    assert (child.name, child.path, child.parent) == ("alice", "root.users.alice", False)
    assert (child.maxapplications, child.max, child.guaranteed) == (3, {"vcore": 4000}, {"vcore": 1000})
    made = child.properties
    assert (made.priority_policy, made.priority_offset, made.sort_policy) == ("fence", 7, "fair")


@pytest.mark.parametrize(
    ("above", "own", "expected"),
    [
        (None, None, True),
        ("disabled", None, False),
        ("disabled", "enabled", True),
        ("enabled", "disabled", False),
        ("disabled", "x", False),
    ],
)
def test_a_queue_made_on_first_use_inherits_disabled_unless_its_template_says_otherwise(above, own, expected):
    key = "application.sort.priority"
    queue = leaf(parent=True, properties={key: above}, childtemplate={"maxapplications": 1, "properties": {key: own}})
    assert make_child(first(in_root(queue)), "x").properties.sort_priority is expected


def test_a_parent_without_a_template_has_that_of_the_nearest_above():
    document = in_root(
        leaf("a", parent=True),
        leaf("b", parent=True, childtemplate={"maxapplications": 9}, queues=[leaf("d", parent=True)]),
        leaf("c"),
        childtemplate={"maxapplications": 5},
    )
    root = read(document).root
    assert [queue.child_template for queue in root.queues] == [
        ChildTemplate(maxapplications=5),
        ChildTemplate(maxapplications=9),
        None,
    ]
    assert root.queues[1].queues[0].child_template == ChildTemplate(maxapplications=9)


def test_templates_are_checked_and_useless_in_leaves():
    bad = in_root(leaf(parent=True, childtemplate={"resources": {"max": {"memory": "x"}}, "maxapplications": -1}))
    assert error_paths(bad) == [
        "root[0].childtemplate.resources.max.memory",
        "root[0].childtemplate.maxapplications",
    ]
    assert codes(in_root(leaf(childtemplate={"maxapplications": 1}))) == ["no_effect"]
    assert codes(in_root(leaf(parent=True, childtemplate={"properties": {"priority.offset": "x"}}))) == [
        "bad_property_value"
    ]


def test_the_shipped_file_is_read_without_a_word():
    checked = read_queues(SHIPPED.read_text())
    assert checked.warnings == ()
    shown = {queue.path: queue.properties for queue in checked.partitions[0].root.queues}
    assert list(shown) == ["root.default", "root.batch", "root.urgent", "root.background"]
    assert (shown["root.urgent"].priority_offset, shown["root.urgent"].priority_factor) == (1000, 10.0)
    assert (shown["root.background"].priority_policy, shown["root.background"].priority_offset) == (
        "fence",
        -100,
    )
    assert shown["root.batch"].priority_factor == 1.0


def test_limits_are_read():
    document = in_root(
        leaf(limits=[{"limit": "few", "users": ["a", "*"], "maxresources": {"vcore": 2}, "maxapplications": 4}])
    )
    assert first(document).limits == (
        Limit(limit="few", users=("a", "*"), maxresources={"vcore": 2000}, maxapplications=4),
    )


def test_capital_letters_of_a_model_do_not_count():
    [partition] = read_queues(
        msgspec.json.encode(in_root(leaf(**resources(max={"GPU:A100": 2, "FPGA": 1})))).decode()
    ).partitions
    assert partition.root.queues[0].max == {"gpu:a100": 2, "FPGA": 1}
    twice = leaf(**resources(max={"gpu:A100": 2, "gpu:a100": 1}))
    with pytest.raises(ConfigurationError, match="is there twice"):
        read_queues(msgspec.json.encode(in_root(twice)).decode())


def test_a_maximum_of_zeros_alone_is_warned_about_as_it_limits_nothing():
    assert codes(in_root(leaf(resources={"max": {"gpu": 0}}))) == ["no_effect"]
    assert codes(in_root(leaf(resources={"max": {"gpu": 0, "vcore": 1}}))) == []
    assert codes(in_root(leaf(resources={"max": {}}))) == []
