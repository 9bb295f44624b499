"""Scripts: kept by the intake, executed by an agent with a real broker and real processes."""

from __future__ import annotations

import asyncio
import os
import pwd
import stat
from pathlib import Path

import builder
import msgspec
import pytest
from integration.intake_stage import an_intake
from integration.test_agent import a_killable_agent, stage, start_of
from integration.test_agent import an_intake as a_played_intake
from integration.test_agent_user import SUBMITTER, needs_root, of, reachable  # noqa: F401 - a fixture
from watch import PATIENCE_S

SCRIPT = '#!/bin/sh\necho "$0 $# $2"\nid -un\ncat "$0"\n'
SECRET = "#!/bin/sh\n# unmistakable\n"


@pytest.fixture
def database(tmp_path):
    """The schema is made by Alembic in an event loop of its own, so before the test's."""
    return builder.new_database(tmp_path)


def a_script(allocation: int, text: str, *arguments: str, **more):
    return msgspec.structs.replace(start_of(allocation, "train.sh", *arguments, **more), script=text.encode())


def files(where: Path) -> list[Path]:
    return sorted(path for path in (where / "state" / "output" / ".scripts").rglob("*") if path.is_file())


async def test_a_script_is_executed_with_its_arguments_and_is_gone_once_its_end_is_recorded(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[a_script(1, SCRIPT, "one", "two words")])
        end = await intake.ended(1)
        assert end.exit_status == 0, end
        first, user, *text = Path(end.stdout).read_text().splitlines()
        assert (first, user) == (f"{first.split()[0]} 2 two words", pwd.getpwuid(os.geteuid()).pw_name)
        assert "\n".join(text) + "\n" == SCRIPT
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("#!/bin/sh\nexit 7", 7, None),
        ("#!/no/such/shell\n", 127, "first line names /no/such/shell"),
        ("#!/tmp\n", 126, "executed"),
    ],
)
async def test_the_first_line_chooses_the_interpreter(broker, tmp_path, text, status, says):
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[a_script(1, text)])
        end = await intake.ended(1)
    assert end.exit_status == status, end
    assert says is None or says in end.message
    assert files(tmp_path) == []


@needs_root
async def test_the_file_is_the_users_alone_and_other_users_can_not_look(broker, reachable):  # noqa: F811
    looks = '#!/bin/sh\nstat -c "%U %a" "$0"\nls "$(dirname "$0")"\necho x >"$0"\nrm "$0"\ncat "$0" | head -1\n'
    async with stage(broker, reachable, run_as=SUBMITTER) as intake:
        await intake.order(starts=[of(a_script(1, "#!/bin/sh\nsleep 1000\n"), "nobody")])
        await intake.started(1)
        [path] = files(reachable)
        assert stat.S_IMODE(path.stat().st_mode) == 0o500
        await intake.order(starts=[of(a_script(2, looks), "daemon"), of(start_of(3, "cat", str(path)), "daemon")])
        end, other = await intake.ended(2), await intake.ended(3)
        assert Path(end.stdout).read_text().splitlines() == ["daemon 500", "#!/bin/sh"]
        assert Path(end.stderr).read_text().count("Permission denied") == 3
        assert (other.exit_status, "Permission denied" in Path(other.stderr).read_text()) == (1, True)


async def test_a_script_outlives_its_agent_and_what_is_left_of_others_goes(broker, tmp_path):
    """The shell reads on in the file after the agent was killed; the next agent removes what it does not know."""
    go = tmp_path / "go"
    text = f"#!/bin/sh\nwhile ! [ -e {go} ]; do sleep 0.02; done\n{'#' * 70_000}\nexit 5\n"
    async with a_played_intake(broker) as intake:
        async with a_killable_agent(broker, tmp_path):
            await intake.order(starts=[a_script(1, text)])
            await intake.started(1)
        [path] = files(tmp_path)
        (path.parent / "99").write_text("#!/bin/sh\n")
        async with a_killable_agent(broker, tmp_path):
            await intake.until(lambda: len(intake.registrations) > 1)
            assert files(tmp_path) == [path]
            go.touch()
            assert (await intake.ended(1)).exit_status == 5
            async with asyncio.timeout(PATIENCE_S):
                while path.exists():
                    await asyncio.sleep(0.01)


async def test_a_further_node_holds_until_it_is_told_to_end(broker, tmp_path):
    holder = msgspec.structs.replace(start_of(1, "train.sh", nodes=["n0", "n1"], rank=1, cwd="/nowhere"), holds=True)
    async with stage(broker, tmp_path) as intake:
        await intake.order(starts=[holder])
        await intake.started(1)
        await intake.order(cancels=[1])
        end = await intake.ended(1)
    assert (end.cause, end.signal) == ("cancel", 15)


async def test_a_script_is_in_no_list_and_no_event_and_only_its_owner_gets_it(broker, tmp_path, database):  # noqa: ARG001
    async with an_intake(broker, tmp_path) as intake:
        job = await intake.submit(script=SECRET, command=["train.sh"], key="k")
        assert (await intake.do("job.script", {"id": job})).body == {"id": job, "script": SECRET}
        assert (await intake.do("job.script", {"id": job}, user="bob")).body["code"] == "not_owner"
        shown = (await intake.do("job.show", {"id": job})).body
        assert (shown["script_bytes"], shown["name"]) == (len(SECRET), "train.sh")
        answers = [shown, await intake.do("job.list"), await intake.do("job.history", {"id": job})]
        answers.append(await intake.do("job.events", {"after": 0}))
        answers += intake.rows("SELECT * FROM jobs") + intake.rows("SELECT * FROM job_events")
        assert "unmistakable" not in str(answers)
        assert await intake.submit(script="#!/bin/other\n", command=["train.sh"], key="k") == job
        assert (await intake.do("job.script", {"id": job})).body["script"] == SECRET


async def test_the_largest_script_goes_through_and_one_more_byte_does_not(broker, tmp_path, database):  # noqa: ARG001
    text = "#!/bin/sh\n".ljust(512 * 1024, "#")
    async with an_intake(broker, tmp_path) as intake:
        job = await intake.submit(script=text, env={"A": "x" * 100_000})
        assert (await intake.do("job.script", {"id": job})).body["script"] == text
        refused = await intake.do("job.submit", {"command": ["x"], "script": f"{text}#"})
        assert (refused.status, refused.body["code"]) == (413, "script_too_large")
        plain = await intake.submit()
        assert (await intake.do("job.script", {"id": plain})).body["code"] == "no_script"
