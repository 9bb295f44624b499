"""``rankd.toml``: what it says, and everything that is wrong in it at once."""

import pytest

from rankd.config.settings import read_settings, readable_adapters
from rankd.core.errors import ConfigurationError
from rankd.core.model.setting import PrioritySettings

FACTORS = ("age", "fairshare", "resource")


def paths(text):
    """Where the problems are."""
    with pytest.raises(ConfigurationError) as caught:
        read_settings(text, FACTORS)
    assert {problem.file for problem in caught.value.problems} == {"rankd.toml"}
    return [problem.path for problem in caught.value.problems]


def test_an_empty_file_is_the_defaults():
    settings = read_settings("[priority.weights]\nage = 1", FACTORS)
    assert (settings.priority.policy, settings.priority.fairshare.half_life_s) == ("multifactor", 604800.0)


@pytest.mark.parametrize(("written", "outputs_s"), [('"none"', None), ("3600", 3600.0)])
def test_outputs_are_kept_for_a_time_or_for_ever(written, outputs_s):
    text = f"[priority.weights]\nage = 1\n[retention]\noutputs_s = {written}"
    assert read_settings(text, FACTORS).retention.outputs_s == outputs_s


@pytest.mark.parametrize(("written", "half_life_s"), [('"none"', None), ("3600", 3600.0)])
def test_usage_decays_by_half_life_or_never(written, half_life_s):
    text = f"[priority.weights]\nage = 1\n[priority.fairshare]\nhalf_life_s = {written}"
    assert read_settings(text, FACTORS).priority.fairshare.half_life_s == half_life_s


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ("priority", "max_age_s = nan"),
        ("priority", "max_age_s = inf"),
        ("priority", "max_age_s = 0"),
        ("priority", "period_s = -1"),
        ("priority", 'policy = "best"'),
        ("priority", 'favor = "none"'),
        ("priority.fairshare", "half_life_s = 0"),
        ("retention", "outputs_s = 0"),
        ("retention", 'outputs_s = "for ever"'),
        ("priority.fairshare", "half_life_s = inf"),
        ("priority.fairshare", "dampening = 0"),
        ("priority.fairshare", "dampening = inf"),
        ("priority.fairshare", 'algorithm = "lottery"'),
        ("priority.fairshare.billing", "vcore = -1"),
        ("priority.fairshare.billing", "vcore = nan"),
        ("priority.weights", "age = nan"),
        ("priority.weights", "age = -inf"),
        ("priority.weights", "agee = 1"),
        ("priority", "maxage = 5"),
        ("scheduling", "reserve_depth = 0"),
        ("scheduling", 'backfill_order = "shortest"\nbackfill = "conservative"'),
        ("privacy", 'jobs = "none"'),
        ("admission", 'admins = ["*"]'),
        ("admission", 'operator_groups = ["night", ""]'),
        ("nodes", 'known = { "n[2-1]" = {} }'),
        ("nodes", 'known = { "n1" = { vcore = "x" } }'),
        ("nodes", 'known = { "n[1-2]" = {}, "n2" = {} }'),
    ],
)
def test_what_does_nothing_or_is_no_number_is_refused_by_its_key(section, line):
    weights = "" if section == "priority.weights" else "[priority.weights]\nfairshare = 1\n"
    assert paths(f"{weights}[{section}]\n{line}") == [f"{section}.{line.split()[0]}"]


@pytest.mark.parametrize("weights", ["age = 0", "age = 0\nfairshare = 0.0", ""])
def test_weights_that_are_all_0_are_refused_unless_the_policy_needs_none(weights):
    assert paths(f"[priority.weights]\n{weights}") == ["priority.weights"]
    read_settings(f'[priority]\npolicy = "class"\n[priority.weights]\n{weights}', FACTORS)


def test_a_quality_of_service_is_checked():
    text = "[priority.weights]\nage = 1\n[[qos]]\nname = 'normal'\n[[qos]]\nname = 'x'\n"
    assert paths(f"{text}factor = nan") == ["qos[1].factor"]
    assert paths(f"{text}factor = 1.5") == ["qos[1].factor"]
    assert paths(f"{text}usage_factor = inf") == ["qos[1].usage_factor"]
    assert paths(f"{text}priority = -1") == ["qos[1].priority"]
    assert paths(f"{text}[[qos]]\nname = 'x'") == ["qos[2].name"]
    assert paths("default_qos = 'none'\n[priority.weights]\nage = 1") == ["default_qos"]


def test_all_problems_are_told_at_once():
    text = "[priority]\nmax_age_s = nan\nmaxage = 1\n[priority.weights]\nage = inf\n[node]\nheartbeat_s = 'soon'"
    assert sorted(paths(text)) == ["node.heartbeat_s", "priority.max_age_s", "priority.maxage", "priority.weights.age"]


def test_capital_letters_of_a_priced_model_do_not_count():
    text = '[priority.weights]\nage = 1\n[priority.fairshare.billing]\nFPGA = 3\n"gpu:A100" = 2\n'
    assert read_settings(text, FACTORS).priority.fairshare.billing == {"FPGA": 3.0, "gpu:a100": 2.0}
    assert paths(text + '"GPU:a100" = 4') == ["priority.fairshare"]
    assert paths(text + '"gpu:" = 4') == ["priority.fairshare"]


def test_what_is_no_toml_is_told():
    assert paths("[priority") == [""]


ADAPTER = '[[adapters]]\nname = "x"\ninput = "{input}"\nadapter = "file"\n{more}\n'


def test_an_adapter_with_what_it_needs_is_taken():
    text = ADAPTER.format(input="factor", more='factor = "qos"\noptions = { path = "x.csv" }')
    [adapter] = read_settings(text, ["qos", *PrioritySettings().weights]).adapters
    assert (adapter.factor, adapter.period_s, adapter.options) == ("qos", 60.0, {"path": "x.csv"})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (ADAPTER.format(input="usage", more="") * 2, "adapters[1].name"),
        (ADAPTER.format(input="factor", more=""), "adapters[0].factor"),
        (ADAPTER.format(input="usage", more='factor = "qos"'), "adapters[0].factor"),
        (ADAPTER.format(input="factor", more='factor = "site"'), "adapters[0].factor"),
        (ADAPTER.format(input="weights", more=""), "adapters[0].input"),
        (ADAPTER.format(input="usage", more="period_s = 0"), "adapters[0].period_s"),
        (ADAPTER.format(input="usage", more="time_limit_s = inf"), "adapters[0].time_limit_s"),
        (ADAPTER.format(input="usage", more="options = { a = { b = 1 } }"), "adapters[0].options.a"),
    ],
)
def test_an_adapter_that_can_not_work_is_refused_with_its_place(text, path):
    with pytest.raises(ConfigurationError) as caught:
        read_settings(text, [*PrioritySettings().weights, "site"])
    assert path in [problem.path for problem in caught.value.problems]


def test_an_unknown_key_does_not_hide_what_is_wrong_with_the_weights():
    text = "qoss = 1\n[priority.weights]\nagee = 1\nage = nan\n[priority.fairshare.billing]\nvcore = -1"
    assert paths(text) == ["priority.weights.age", "qoss", "priority.weights.agee", "priority.fairshare.billing.vcore"]
    assert paths("qoss = 1\n[priority]\nfavour = 'small'\nweights = {agee = 1}") == [
        "qoss",
        "priority.favour",
        "priority.weights.agee",
    ]


def test_what_is_wrong_in_one_place_hides_nothing_that_is_wrong_elsewhere_and_nothing_follows_from_it_alone():
    text = """
default_qos = "nix"
[priority]
period_s = 0
[priority.weights]
agee = 1
[[qos]]
name = "normal"
[[adapters]]
name = "a"
input = "usages"
adapter = "file"
[[adapters]]
name = "b"
input = "factor"
adapter = "file"
"""
    found = ["priority.period_s", "adapters[0].input", "priority.weights.agee", "default_qos", "adapters[1].factor"]
    assert paths(text) == found
    follows = '[priority.weights]\nage = "x"\n[[qos]]\nname = "normal"\npriority = "y"\n'
    assert paths(follows) == ["priority.weights.age", "qos[0].priority"]


def test_what_is_nested_beyond_all_reason_is_no_settings():
    text = f"a = {'[' * 2_000}"
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        read_settings(text, [])
    assert readable_adapters(text) == []
