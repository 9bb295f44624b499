"""Where an agent looks for devices, by the options of its command."""

import pytest

from rankd.cli.main import _parser
from rankd.cli.services.agent_command import _machine


def machine(*words):
    return _machine(_parser("agent").parse_args(["agent", "--state", "s", *words]))


def test_an_agent_looks_at_its_machine():
    assert machine() is not None
    assert machine("--device", "gpu:a100:4") is not None


@pytest.mark.parametrize("words", [["--no-devices"], ["--no-devices", "--device", "gpu:a100:4"], ["--simulate", "2"]])
def test_an_agent_looks_nowhere_if_it_is_told_so_or_has_no_machine(words):
    assert machine(*words) is None
