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


def test_lines_of_a_script_count_below_the_fields(monkeypatch, here):
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("RANKD_SUBMIT_QOS", "high")
    text = "#!/bin/sh\n#SBATCH --mem=4G -c 2 -J lines -t 5 -n 2\n#RANKD --comment kept\ntrue\n"
    job = job_of(text, {"name": "mine", "env": {"A": "1"}, "args": ["x"]}, is_local=False)
    variables = job.pop("env")
    assert job == {
        "command": ["script", "x"], "script": text, "name": "mine", "resources": {"vcore": 4, "memory": "4Gi"},
        "time_limit_s": 300.0, "comment": "kept", "slurm_env": True, "cwd": here, "stdout": "slurm-%j.out",
        "stderr": "slurm-%j.out",
    }  # fmt: skip
    assert (variables["A"], variables["SLURM_NTASKS"]) == ("1", "2")
    assert "COLOUR" not in variables
    assert job_of(text, {"directives": "ignore"}, is_local=True) == {
        "command": ["script"], "script": text, "cwd": here, "stdout": "job-%j.out", "stderr": "job-%j.out",
    }  # fmt: skip


def test_an_environment_travels_if_a_line_says_so(monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    job = job_of("#!/bin/sh\n#RANKD --export COLOUR,SHAPE=round\n", {"array": "0-3"}, is_local=True)
    assert job["env"] == {"COLOUR": "red", "SHAPE": "round"}
    assert (job["array"], job["stdout"]) == ("0-3", "job-%A_%a.out")


def test_wrong_lines_are_refused_all_at_once():
    with pytest.raises(Refused) as caught:
        job_of("#!/bin/sh\n#SBATCH --tiem=4 -F nodes\n#RANKD --mem lots\n", {}, is_local=True)
    assert caught.value.code == "bad_directive"
    for said in ("line 2: #SBATCH: sbatch has no option --tiem", "--nodefile: ", "script line 3: 'lots' is not"):
        assert said in caught.value.message
    with pytest.raises(Refused, match="script line 2: --count is for `rankd submit`"):
        job_of("#!/bin/sh\n#RANKD --count 3\n", {}, is_local=True)


def test_what_has_no_effect_is_a_warning():
    with pytest.warns(UserWarning, match="line ") as found:
        job_of("#!/bin/sh\n#SBATCH --hint=x --wait\nsrun ./a\n", {}, is_local=True, said=(said := []))
    assert said == [str(one.message) for one in found]
    assert [str(one.message).split(": ")[0] for one in found][:2] == ["line 2", "script line 2"]
    assert str(found[2].message).startswith("line 3 calls srun, which is")


def test_notifications_of_sbatchs_lines_may_be_left_out():
    text = "#!/bin/sh\n#SBATCH --mail-type=END --mail-user=a@b.org\n"
    job = job_of(text, {}, is_local=True)
    assert job["notify"] == {"on": ["end"], "to": ["mailto:a@b.org"], "if_allowed": True}
    assert job_of(text, {"notify": {"on": ["end"]}}, is_local=True)["notify"] == {"on": ["end"]}


def test_a_command_is_not_a_list_of_jobs():
    assert len(jobs_of([{"command": ["a"]}, JobRequest(command=["b"])], is_local=False)) == 2
    with pytest.raises(TypeError, match="one job by command="):
        jobs_of(["echo", "hello"], is_local=False)
