"""Options of Slurm's commands on rankd's command line."""

import re

import pytest

from rankd.cli.common import slurm_option
from rankd.cli.common.slurm_option import slurms
from rankd.cli.main import COMMANDS, _parser, main


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cancel --batch 17", "there is no option --batch: all processes of a job"),
        ("nodes -Nel", "there is no option -e: -N -l shows each node"),
        ("nodes -Nzl", "there is no option -z; "),
        ("queue -O jobid", "there is no option -O: -o takes columns by letters; `rankd queue -o %` lists them"),
        (
            "queue --steps",
            "there is no option --steps: it lists jobs; `rankd show JOB` and `rankd acct --steps JOB` list",
        ),
        ("acct --brief", "there is no option --brief: -o names the columns"),
        ("submit --mail-type=END -- true", "there is no option --mail-type: sbatch's --mail-type is --notify"),
        ("submit -k -- true", "there is no option -k: sbatch's --no-kill has no effect in rankd"),
        ("submit --reservation r -- true", "there is no option --reservation: rankd has nothing like"),
        ("submit --tiem 5 -- true", "there is no option --tiem (did you mean --time?)"),
        ("submit -t", "-t/--time needs a value"),
        ("queue 18", "takes no argument '18'; write `rankd queue -j 18`, or `rankd show 18`"),
        ("nodes 18", "takes no argument '18'; `rankd nodes"),
    ],
)
def test_an_option_of_slurms_is_answered_with_what_rankd_has(line, said, capsys):
    assert main(line.split()) == 2
    assert capsys.readouterr().err.startswith(f"rankd {line.split()[0]}: {said}")


def test_only_options_that_a_command_lacks_are_listed():
    for command, options in slurm_option._OF_COMMAND.items():
        known = _parser(command)._subparsers._group_actions[0].choices[command]._option_string_actions
        assert not {name for names in options for name in names.split()} & known.keys(), command


def test_what_is_advised_exists():
    advised = " ".join(text for options in slurm_option._OF_COMMAND.values() for text in options.values())
    assert set(re.findall(r"`rankd (\w+)", advised)) <= COMMANDS.keys()


def test_other_options_get_no_advice():
    assert slurms("cancel", "--nonsense") is None
    assert slurms("config", "-a") is None
