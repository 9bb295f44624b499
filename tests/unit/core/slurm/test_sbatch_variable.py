"""The environment variables of sbatch."""

import pytest

from rankd.core.slurm.sbatch_option import OPTIONS, WITHOUT_EQUIVALENT
from rankd.core.slurm.sbatch_variable import VARIABLES, translate_variable

MANUAL = """
ACCOUNT ACCTG_FREQ ARRAY_INX BATCH CLUSTERS CONSTRAINT CONTAINER CONTAINER_ID CORE_SPEC CPUS_PER_GPU DEBUG
DELAY_BOOT DISTRIBUTION ERROR EXCLUSIVE EXPORT GET_USER_ENV GPU_BIND GPU_FREQ GPUS GPUS_PER_NODE GPUS_PER_TASK
GRES GRES_FLAGS HINT IGNORE_PBS INPUT JOB_NAME MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NETWORK NO_KILL
NO_REQUEUE OPEN_MODE OUTPUT OVERCOMMIT PARTITION POWER PROFILE QOS REQ_SWITCH REQUEUE RESERVATION SEGMENT_SIZE
SIGNAL SPREAD_JOB THREAD_SPEC THREADS_PER_CORE TIMELIMIT TRES_BIND TRES_PER_TASK USE_MIN_NODES WAIT
WAIT_ALL_NODES WAIT4SWITCH WCKEY
"""


def test_each_variable_of_the_manual_is_an_option():
    assert {f"SBATCH_{name}" for name in MANUAL.split()} == set(VARIABLES)
    assert set(VARIABLES.values()) <= set(OPTIONS)


@pytest.mark.parametrize("name", [name for name, option in VARIABLES.items() if option in WITHOUT_EQUIVALENT])
def test_a_variable_whose_option_rankd_lacks_is_named_and_does_no_harm(name):
    words, remark = translate_variable(name, "1")
    assert not words
    assert remark.startswith(f"{name} has no effect: ")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ACCOUNT", "physics", ["--account=physics"]),
        ("ARRAY_INX", "0-9%2", ["--array=0-9%2"]),
        ("PARTITION", "gpu", ["--queue=gpu"]),
        ("MEM_PER_NODE", "4G", ["--mem=4G"]),
        ("TIMELIMIT", "1-0", ["--time=86400s"]),
        ("OUTPUT", "%N.out", ["--output=%n.out"]),
        ("EXCLUSIVE", "exclusive", ["--exclusive"]),
        ("NO_REQUEUE", "", ["--no-requeue"]),
        ("WAIT", "1", ["--wait"]),
        ("ACCOUNT", "", []),
    ],
)
def test_a_variable_means_what_its_option_means(name, value, words):
    assert translate_variable(f"SBATCH_{name}", value) == (words, "")


def test_a_misspelt_variable_is_named_with_the_right_one():
    assert translate_variable("SBATCH_TIME_LIMIT", "5").remark == (
        "SBATCH_TIME_LIMIT has no effect: sbatch knows no such variable; did you mean SBATCH_TIMELIMIT?"
    )


@pytest.mark.parametrize(("name", "value"), [("TIMELIMIT", "soon"), ("CONSTRAINT", "a|b"), ("EXCLUSIVE", "user")])
def test_a_value_that_rankd_cannot_use_is_an_error(name, value):
    with pytest.raises(ValueError, match=f"SBATCH_{name}: .*; or unset it"):
        translate_variable(f"SBATCH_{name}", value)
