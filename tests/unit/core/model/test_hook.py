"""What prologs and epilogs get from rankd, and what they may say."""

from rankd.core.model.array import TaskOfArray
from rankd.core.model.device import AssignedDevice
from rankd.core.model.hook import LONGEST_LINE, failure, hook_environment, last_line
from rankd.core.model.job_place import JobPlace


def place(**fields) -> JobPlace:
    known = {"job": 17, "allocation": 5, "user": "alice", "name": "() { :; }; reboot", "nodes": ["n1", "n2"], "rank": 1}
    return JobPlace(**known | {"uid": 1001, "gid": 100, "account": "physics", "queue": "root.a"} | fields)


def test_the_job_is_named_as_slurm_does_without_any_text_of_its_user():
    found = hook_environment(place())
    assert (
        found.items()
        >= {
            "SLURM_JOB_ID": "17",
            "SLURM_JOB_USER": "alice",
            "SLURM_JOB_UID": "1001",
            "SLURM_JOB_GID": "100",
            "SLURM_JOB_ACCOUNT": "physics",
            "SLURM_JOB_PARTITION": "a",
            "SLURM_JOB_NODELIST": "n[1-2]",
            "SLURMD_NODENAME": "n2",
            "SLURM_NODEID": "1",
            "RANKD_JOB_ID": "17",
            "RANKD_NODELIST": "n1,n2",
        }.items()
    )
    assert "reboot" not in "".join(found.values())
    assert not {"RANKD_JOB_NAME", "SLURM_JOB_NAME", "LD_PRELOAD", "HOME"} & set(found)


def test_tasks_and_devices_are_named_too():
    device = AssignedDevice(id="GPU-1", index=3, model="a100")
    found = hook_environment(place(array=TaskOfArray(16, 4, 10, 1, 10, 1), devices=[device]))
    assert (found["SLURM_ARRAY_JOB_ID"], found["SLURM_ARRAY_TASK_ID"]) == ("16", "4")
    assert (found["SLURM_JOB_GPUS"], found["RANKD_GPU_IDS"]) == ("3", "GPU-1")


def test_output_is_bounded_and_can_not_move_the_cursor():
    assert last_line(b"\n \n") == ""
    assert len(last_line(b"\x1b" * 10_000)) == LONGEST_LINE
    assert (
        failure("epilog", "/e", "ended with 1", b"a\n\x1b]0;owned\x07\n\n")
        == r"epilog /e ended with 1: \u001b]0;owned\u0007"
    )
