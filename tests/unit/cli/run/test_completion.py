import argparse

import pytest

from rankd.cli.main import COMMANDS, HIDDEN, whole_parser
from rankd.cli.run.completion import DIRECTORIES, FILES, KINDS, OF_NODES, SHELLS, script


def actions(parser):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from actions(below)
        else:
            yield action


def test_each_name_of_a_value_that_is_completed_is_shown_by_some_help():
    assert {*FILES, *DIRECTORIES, *KINDS} <= {action.metavar or action.dest for action in actions(whole_parser())}


def test_a_parser_of_all_commands_knows_no_hidden_one():
    (commands,) = (action for action in whole_parser()._actions if isinstance(action, argparse._SubParsersAction))
    assert set(commands.choices) == set(COMMANDS)
    assert not set(COMMANDS) & set(HIDDEN)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_for_each_kind_of_name(shell):
    text = script(shell)
    ask = "rankd complete" if shell == "fish" else "_rankd_ask"
    assert all(f"{ask} {kind} " in text for kind in {*KINDS.values(), *OF_NODES.values()})
    assert 'compgen -W "$(rankd' not in text
