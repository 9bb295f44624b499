"""Calls of Slurm's commands for steps in scripts."""

import pytest

from rankd.core.submission.step_command import LONGEST_LINE, remark, step_calls


@pytest.mark.parametrize(
    "line",
    [
        "srun ./a", "  srun -n 4 ./a", "exec srun ./a", "time srun ./a", "x=1 srun ./a", "cd w && srun ./a",
        "a; srun ./b", "if srun ./a; then", "r=$(srun ./a)", "for i in 1; do srun ./a & done", "srun \\", "srun",
    ],
)  # fmt: skip
def test_a_call_is_found(line):
    assert step_calls(f"#!/bin/bash\n\n{line}\n") == [("srun", 3, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\n# srun ./a\n", "#!/bin/sh\necho srun\n", "#!/bin/sh\nmy-srun x\n", "#!/bin/sh\n/opt/srun-x\n",
        '#!/bin/sh\nsrun() { "$@"; }\nsrun ./a\n', "#!/usr/bin/env python3\nsrun ('a')\n", "#!/bin/sh\nsrun=5\n",
        "#!/bin/bash\nalias srun=mpirun\nsrun ./a\n",
    ],
)  # fmt: skip
def test_what_is_no_call_is_not(text):
    assert step_calls(text) == []


def test_each_command_is_named_once_with_its_first_line():
    calls = step_calls("#!/bin/sh\nsbcast a /tmp/a\nsrun a\nsrun b; srun c\nsrun d\n")
    assert calls == [("sbcast", 2, 1), ("srun", 3, 3)]
    assert remark(calls[1]) == (
        "line 3 and 2 more call srun, which is `rankd run` there; the node has to reach rankd as you do, by a"
        " directory of `rankd up` or by `rankd login`"
    )


def test_other_commands_of_slurm_are_named_with_those_of_rankd():
    text = "#!/bin/bash\nexport A=$(scontrol show hostnames \"$L\" | head -n 1)\ntrap 'sbatch $0' USR1\nsqueue --me\n"
    calls = step_calls(text)
    assert [call.command for call in calls] == ["scontrol", "squeue"], "what is quoted is not searched"
    assert "`echo $RANKD_NODELIST | tr , '\\n'`" in remark(calls[0])
    assert remark(calls[1]) == "line 4 calls squeue, which belongs to Slurm; write `rankd queue`"


def test_a_line_that_is_endless_is_searched_in_part():
    assert step_calls("#!/bin/sh\n" + "(a=" * 200_000 + "; srun a\n") == []
    assert len("(a=") * 200_000 > LONGEST_LINE
