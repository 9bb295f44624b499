"""The folders of the command line are the groups of its help, so that a command is found by its group."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rankd.cli
from rankd.cli.main import COMMANDS

CLI = Path(rankd.cli.__file__).parent
SHARED = "common"


def folder_of(group: str) -> str:
    return group.lower().replace(" ", "_")


def test_the_folders_are_the_groups_of_the_help_and_what_they_share():
    folders = {path.name for path in CLI.iterdir() if (path / "__init__.py").is_file()}
    assert folders == {folder_of(command.group) for command in COMMANDS.values()} | {SHARED}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_folder_of_its_group(name):
    folder, _, module = COMMANDS[name].module.partition(".")
    assert folder == folder_of(COMMANDS[name].group)
    assert (CLI / folder / f"{module}.py").is_file()


@pytest.mark.parametrize("group", sorted({command.group for command in COMMANDS.values()}))
def test_a_folder_says_the_title_of_its_group(group):
    text = ast.get_docstring(ast.parse((CLI / folder_of(group) / "__init__.py").read_text()))
    assert text is not None
    assert text.startswith(f'Commands under "{group}": ')
