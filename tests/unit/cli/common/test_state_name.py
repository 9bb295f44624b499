"""The words of states."""

import pytest

from rankd.cli.common.state_name import states_of
from rankd.cli.look.queue import SHORT_STATES
from rankd.core.errors import Refused

SLURMS = """
    BOOT_FAIL BF CANCELLED CA COMPLETED CD CONFIGURING CF COMPLETING CG DEADLINE DL FAILED F NODE_FAIL NF PENDING PD
    PREEMPTED PR RUNNING R RESV_DEL_HOLD RD REQUEUE_FED RF REQUEUE_HOLD RH REQUEUED RQ RESIZING RS REVOKED RV SIGNALING
    SI SPECIAL_EXIT SE STAGE_OUT SO STOPPED ST SUSPENDED S TIMEOUT TO
"""
"""squeue(1) of Slurm 24.11."""


def test_all_of_slurms_states_are_known_by_their_words_and_letters():
    states, never = states_of(SLURMS.split(), SHORT_STATES)
    assert {"cancelled", "completed", "failed", "node_lost", "pending", "running", "timeout"} <= set(states)
    assert len(states) + len(never) == len(SLURMS.split())


def test_a_word_that_slurm_does_not_have_is_refused_also_beside_all():
    with pytest.raises(Refused, match="unknown state 'sleeping'; known: all, pending,"):
        states_of(["all", "sleeping"], SHORT_STATES)
