import pytest

from rankd.client.job_form import job_of, jobs_of
from rankd.core.errors import Refused
from rankd.core.model.job import Dependency, JobRequest

SCRIPT = "#!/bin/sh\necho hello\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(tmp_path)


def test_a_struct_is_sent_without_what_is_its_default():
    given = JobRequest(command=["true"], nodes=2, depends_on=[Dependency(type="afterok", job=3)])
    assert job_of(given, {}, is_local=False) == {
        "command": ["true"], "nodes": 2, "depends_on": [{"type": "afterok", "job": 3}],
    }  # fmt: skip


def test_fields_replace_those_of_the_job():
    assert job_of({"command": ["a"], "name": "x"}, {"name": "y"}, is_local=False) == {"command": ["a"], "name": "y"}
    assert job_of(None, {"command": ["a"]}, is_local=False) == {"command": ["a"]}


def test_a_job_of_this_machine_runs_in_this_directory_unless_it_names_one(here):
    assert job_of({"command": ["a"]}, {}, is_local=True)["cwd"] == here
    assert job_of({"command": ["a"], "cwd": "/x"}, {}, is_local=True)["cwd"] == "/x"
    assert "cwd" not in job_of({"command": ["a"]}, {}, is_local=False)
    assert job_of(SCRIPT, {}, is_local=False)["cwd"] == here


def test_a_script_is_a_text_or_a_file(here, tmp_path):
    (tmp_path / "train.sh").write_text(SCRIPT)
    for given in (tmp_path / "train.sh", "train.sh"):
        job = job_of(given, {"args": ["1", "2"], "nodes": 2}, is_local=True)
        assert job == {
            "command": ["train.sh", "1", "2"], "script": SCRIPT, "nodes": 2, "cwd": here,
            "stdout": "job-%j.out", "stderr": "job-%j.out",
        }  # fmt: skip
    assert job_of(SCRIPT, {"array": "0-3"}, is_local=True)["stdout"] == "job-%A_%a.out"


@pytest.mark.parametrize("given", ["missing.sh", "echo hello", b"\xff".decode("latin-1")])
def test_what_is_neither_a_script_nor_a_file_is_refused(given):
    with pytest.raises(Refused) as error:
        job_of(given, {}, is_local=True)
    assert error.value.code == "bad_script"


def test_directives_are_refused_unless_they_are_to_be_left_out():
    text = "#!/bin/sh\n#SBATCH --mem=4G\ntrue\n"
    with pytest.raises(Refused, match="line 2: only `rankd submit` reads lines of #SBATCH"):
        job_of(text, {}, is_local=True)
    assert job_of(text, {"directives": "ignore"}, is_local=True)["script"] == text


def test_a_command_is_not_a_list_of_jobs():
    assert len(jobs_of([{"command": ["a"]}, JobRequest(command=["b"])], is_local=False)) == 2
    with pytest.raises(TypeError, match="one job by command="):
        jobs_of(["echo", "hello"], is_local=False)
