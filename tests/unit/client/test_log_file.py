import os
from types import SimpleNamespace

import pytest

from rankd.client.log_file import LogFile
from rankd.client.step import Effort, Pause, next_step
from rankd.core.errors import Refused


class Job:
    """A job whose record and file change while its output is read: ``story`` is called at each pause."""

    def __init__(self, path, *story, state="running", started_at=0.0):
        self.record = SimpleNamespace(
            state=state,
            stdout=str(path),
            stderr=None,
            started_at=started_at,
            nodelist="n1",
            path=path,
            id=17,
            array=None,
            array_task=None,
        )
        self.story = list(story)
        self.now = 0.0

    def read(self, *, follow, stream="stdout"):
        file, parts = LogFile(17, stream, follow=follow), []
        try:
            while (part := self._run(file.part(Effort(0, lambda: self.now)))) is not None:
                parts.append(part)
        finally:
            file.close()
        return b"".join(parts)

    def _run(self, plan):
        result = None
        while True:
            try:
                step = next_step(plan, result, None)
            except StopIteration as done:
                return done.value
            result = None
            if isinstance(step, Pause):
                self.now += step.polled_s
                if self.story:
                    self.story.pop(0)(self)
            else:
                result = self.record


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "job-17.out"
    file.write_bytes(b"one\n")
    return file


def writes(text):
    def write(job):
        with job.record.path.open("ab") as file:
            file.write(text)

    return write


def ends(job):
    job.record.state = "completed"


def starts(job):
    job.record.state, job.record.started_at = "running", 0.0


def test_without_following_the_output_so_far_is_read(path):
    assert Job(path, writes(b"two\n")).read(follow=False) == b"one\n"


def test_following_goes_on_until_the_job_has_ended_and_loses_nothing(path):
    job = Job(path, writes(b"two\n"), writes(b"three\n"), writes(b"four\n"), ends, writes(b"five\n"))
    assert job.read(follow=True) == b"one\ntwo\nthree\nfour\nfive\n"


def test_following_waits_for_the_start(path):
    job = Job(path, starts, ends, state="pending", started_at=None)
    assert job.read(follow=True) == b"one\n"
    with pytest.raises(Refused) as error:
        Job(path, state="pending", started_at=None).read(follow=False)
    assert error.value.code == "not_started"


def test_a_job_that_is_cancelled_before_its_start_has_no_output(path):
    job = Job(path, lambda job: setattr(job.record, "state", "cancelled"), state="pending", started_at=None)
    with pytest.raises(Refused) as error:
        job.read(follow=True)
    assert error.value.code == "not_started"


def test_a_file_that_can_not_be_read_here_is_named_with_its_node(path, tmp_path):
    for missing in (tmp_path / "gone", tmp_path):
        with pytest.raises(Refused, match="the output of job 17 on n1 can't be read here") as error:
            Job(missing).read(follow=False)
        assert error.value.code == "log_not_here"
    with pytest.raises(Refused, match="no file is known for stderr"):
        Job(path).read(follow=False, stream="stderr")


def test_the_file_of_an_earlier_attempt_is_not_taken_for_the_jobs(path):
    os.utime(path, (1000.0, 1000.0))
    with pytest.raises(Refused, match="is not the file of this run"):
        Job(path, started_at=2000.0).read(follow=False)


@pytest.mark.parametrize(
    ("array", "state"), [("0-9", "pending"), (None, "running"), (None, "completed")], ids=["waits", "runs", "ended"]
)
@pytest.mark.parametrize("follow", [False, True])
def test_the_output_of_an_array_is_that_of_its_tasks(path, array, state, follow):
    job = Job(path, state=state, started_at=5.0)
    job.record.array, job.record.nodelist, job.record.stdout = array, None, None
    with pytest.raises(Refused, match=r"job 17 is an array.*name one: logs\('17_0'\)") as caught:
        job.read(follow=follow)
    assert (caught.value.code, caught.value.field) == ("is_array", "job")


def test_a_task_without_a_record_has_not_started(path):
    job = Job(path, state="pending", started_at=None)
    job.record.array, job.record.array_task = "0-9", 3
    with pytest.raises(Refused, match="has not started"):
        job.read(follow=False)
