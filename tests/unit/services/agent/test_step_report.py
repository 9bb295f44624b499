"""What an agent reports of the end of a step."""

import pytest

from rankd.core.session.step import LOST, NOT_STARTED, StepEnd
from rankd.services.agent.step_report import Recorded, StepReports
from rankd.services.keeper.message import StepHappened


@pytest.fixture
def told():
    return []


@pytest.fixture
def reports(told):
    return StepReports(lambda: 7.0, told.append)


def happened(**fields):
    return StepHappened(**{"allocation": 1, "step": "1-a", "kind": "ended", "at": 5.0} | fields)


def test_an_end_has_the_number_and_the_time_of_the_keeper(reports, told):
    reports.happened(happened(number=2, task=3, exit_status=4), Recorded(1, 9, 9))
    assert told == [StepEnd(allocation=1, number=2, task=3, at=5.0, exit_status=4)]


def test_of_a_keeper_of_an_older_version_the_session_knows_the_number(reports, told):
    reports.happened(happened(at=None, signal=9), Recorded(1, 2, 3))
    assert told == [StepEnd(allocation=1, number=2, task=3, at=7.0, signal=9)]


def test_a_step_without_a_number_is_not_reported(reports, told):
    reports.happened(happened(exit_status=0), None)
    reports.happened(happened(kind="started", number=2), Recorded(1, 2, 0))
    assert told == []


def test_a_command_that_could_not_be_started_is_reported_as_such(reports, told):
    reports.happened(happened(number=0, exit_status=127, message="no such command"), None)
    reports.over(Recorded(1, 1, 0), LOST)
    assert told == [
        StepEnd(allocation=1, number=0, at=5.0, exit_status=127, cause=NOT_STARTED),
        StepEnd(allocation=1, number=1, at=7.0, cause=LOST),
    ]
