"""A node with cards: its agent with the real watcher and a stand-in of NVIDIA's library; the tests play the intake."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from integration.nvml import Card, Part, needs_compiler
from integration.nvml import Machine as StandIn
from integration.test_agent import stage, start_of
from msgspec.structs import replace
from watch import PATIENCE_S, appears

from rankd.core.model.device import AssignedDevice, DeviceState
from rankd.services.agent import device_monitor, device_report
from rankd.services.agent.device_watch import Machine
from rankd.services.keeper.cgroup import ControlGroups

pytestmark = needs_compiler
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices and deny them")

MINORS = {"GPU-0": 5, "GPU-1": 7, "GPU-2": 8}
"""The numbers of /dev/zero, /dev/full and /dev/random for the files of the cards."""


def cards(**more) -> list[Card]:
    addresses = ("00000000:3B:00.0", "00000000:5E:00.0", "00000000:AF:00.0")
    return [
        Card(id_, minor=number, address=address, **more.get(id_.replace("-", ""), {}))
        for number, (id_, address) in enumerate(zip(MINORS, addresses, strict=True))
    ]


@pytest.fixture
def stand_in(tmp_path) -> StandIn:
    made = StandIn(tmp_path / "nvml")
    made.has(*cards())
    return made


@asynccontextmanager
async def a_gpu_node(broker, tmp_path, stand_in, **more):
    machine = Machine(library=str(stand_in.library), root=stand_in.root)
    async with stage(broker, tmp_path, machine=machine, **more) as intake:
        yield intake


def with_cards(start, *ids: str):
    return replace(start, devices=[AssignedDevice(id_, "a100", int(id_[-1])) for id_ in ids])


def states(intake) -> dict[str, str]:
    return {device.id: str(device.state) for device in intake.registrations[-1][1].devices}


async def test_cards_are_registered_with_the_node(broker, tmp_path, stand_in, caplog):
    caplog.set_level("INFO", "rankd.agent")
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        await intake.until(lambda: intake.registrations)
        registration = intake.registrations[0][1]
        assert [(device.id, device.model, device.index) for device in registration.devices] == [
            ("GPU-0", "a100", 0),
            ("GPU-1", "a100", 1),
            ("GPU-2", "a100", 2),
        ]
        assert registration.confinement == ControlGroups("agent-device").confinement
    assert "devices found: 3 a100" in caplog.messages
    assert registration.confinement in caplog.messages


async def test_without_a_machine_to_look_at_there_are_no_devices(broker, tmp_path):
    async with stage(broker, tmp_path) as intake:
        await intake.until(lambda: intake.registrations)
        registration = intake.registrations[0][1]
        assert (registration.devices, registration.confinement) == ([], "")


OPENS = 'for path in "$@"; do if (exec 3< "$path") 2> /dev/null; then echo opened; else echo denied; fi; done'


@needs_root
async def test_a_job_opens_its_own_cards_and_no_others(broker, tmp_path, stand_in):
    files = []
    for number, minor in enumerate(MINORS.values()):
        (stand_in.root / "dev").mkdir(exist_ok=True)
        files.append(str(stand_in.root / f"dev/nvidia{number}"))
        os.mknod(files[-1], stat.S_IFCHR | 0o666, os.makedev(1, minor))
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        command = ("sh", "-c", OPENS, "sh", *files)
        asked = [("GPU-0",), ("GPU-2", "GPU-1"), ()]
        await intake.order(starts=[with_cards(start_of(1 + n, *command), *ids) for n, ids in enumerate(asked)])
        said = [Path((await intake.ended(1 + n)).stdout).read_text().split() for n in range(3)]
    assert said == [["opened", "denied", "denied"], ["denied", "opened", "opened"], ["denied"] * 3]


MINORS_OF_PARTS = "gpu0/gi1/access 30\ngpu0/gi1/ci0/access 31\ngpu0/gi2/access 39\ngpu0/gi2/ci0/access 40\n"
FILES_OF_PARTS = {"nvidia0": 9, "nvidia-caps/nvidia-cap30": 5, "nvidia-caps/nvidia-cap39": 7, "nvidia1": 8}
"""With numbers of the kernel's own devices: /dev/urandom, /dev/zero, /dev/full, /dev/random."""


@needs_root
async def test_a_job_opens_its_own_part_of_a_card_and_no_other_part(broker, tmp_path, stand_in):
    stand_in.file("proc/driver/nvidia-caps/mig-minors", MINORS_OF_PARTS)
    (stand_in.root / "dev/nvidia-caps").mkdir(parents=True)
    for name, minor in FILES_OF_PARTS.items():
        os.mknod(stand_in.root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    whole, other, _ = cards()
    parts = [Part(0, f"MIG-{n}", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", n) for n in (1, 2)]
    stand_in.has(whole._replace(parted=1), *parts, other)
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        await intake.until(lambda: intake.registrations)
        offered = [(device.id, device.model) for device in intake.registrations[0][1].devices]
        assert offered == [("MIG-1", "a100-1g.10gb"), ("MIG-2", "a100-1g.10gb"), ("GPU-1", "a100")]
        command = ("sh", "-c", OPENS, "sh", *(str(stand_in.root / "dev" / name) for name in FILES_OF_PARTS))
        held = [("MIG-1", "a100-1g.10gb", 0), ("MIG-2", "a100-1g.10gb", 0), ("GPU-1", "a100", 1)]
        starts = [
            replace(start_of(1 + n, *command), devices=[AssignedDevice(*device)]) for n, device in enumerate(held)
        ]
        await intake.order(starts=starts)
        said = [Path((await intake.ended(1 + n)).stdout).read_text().split() for n in range(3)]
        stand_in.tell("GPU-0", 8, 79)
        await intake.until(lambda: intake.device_reports)
        assert {note.id for note in intake.device_reports[0].notes if note.fault} == {"MIG-1", "MIG-2"}
    assert said == [
        ["opened", "opened", "denied", "denied"],
        ["opened", "denied", "opened", "denied"],
        ["denied", "denied", "denied", "opened"],
    ]


@needs_root
async def test_an_agent_that_starts_again_knows_who_has_which_card(broker, tmp_path, stand_in):
    os.mkfifo(tmp_path / "fifo")
    async with a_gpu_node(broker, tmp_path, stand_in, drain_on_stop_s=None) as intake:
        script = f"echo $$ > {tmp_path}/pid; read line < {tmp_path}/fifo"
        await intake.order(starts=[with_cards(start_of(1, "sh", "-c", script), "GPU-1")])
        pid = int(await appears(tmp_path / "pid"))
    stand_in.has(*cards(GPU1={"pids": (pid,), "busy": 50, "used": 2**30}))
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        await intake.until(lambda: intake.registrations)
        assert states(intake)["GPU-1"] == DeviceState.OK, "its process belongs to a job"
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        await intake.ended(1)
        stand_in.has(*cards())
        stand_in.tell("GPU-0", 8, 79)  # the next look comes at once
        uses = await intake.until(lambda: [use for report in intake.device_reports for use in report.uses])
        assert [(use.allocation, use.id, use.busy, use.samples, use.peak_bytes) for use in uses] == [
            (1, "GPU-1", 0.5, 1, 2**30)
        ]


async def test_a_card_goes_to_the_next_job_when_the_last_one_has_ended_here(broker, tmp_path, stand_in):
    """The intake may count a lost node's job as ended before its processes are gone."""
    said, gate = tmp_path / "said", tmp_path / "gate"
    os.mkfifo(gate)
    waits = "i=0; while [ $((i += 1)) -lt 30000 ]; do sleep 0.02; done"
    lingers = f"trap 'read line <{gate}; echo left >>{said}; exit' TERM; echo up >{tmp_path}/up; {waits}"
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        intake.grace_s = PATIENCE_S
        known = len(intake.heartbeats)
        await intake.until(lambda: len(intake.heartbeats) > known + 1)
        await intake.order(starts=[with_cards(start_of(1, "sh", "-c", lingers), "GPU-1")])
        await appears(tmp_path / "up")
        starts = [with_cards(start_of(n, "sh", "-c", f"echo {n} >>{said}"), f"GPU-{n - 1}") for n in (2, 3)]
        await intake.order(starts=starts, cancels=[1])
        await intake.ended(3)
        before = len(intake.takes)
        await intake.until(lambda: len(intake.takes) >= before + 2)
        assert not intake.of(2, "started")
        await asyncio.to_thread(gate.write_text, "go\n")
        assert (await intake.ended(2)).exit_status == 0
    assert said.read_text() == "3\nleft\n2\n"


async def test_a_process_without_a_job_takes_its_card_until_it_has_gone(broker, tmp_path, stand_in):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        stand_in.has(*cards(GPU2={"pids": (foreign.pid,)}))
        async with a_gpu_node(broker, tmp_path, stand_in) as intake:
            await intake.until(lambda: intake.device_reports)
            [note] = intake.device_reports[0].notes
            assert (note.id, note.state) == ("GPU-2", DeviceState.TAKEN)
            assert note.by.split()[0] == str(foreign.pid)
            assert states(intake) == {"GPU-0": "ok", "GPU-1": "ok", "GPU-2": "taken"}
            foreign.communicate(b"\n")
            stand_in.tell("GPU-0", 8, 79)  # the next look comes at once
            await intake.until(lambda: any(note.fault for r in intake.device_reports for note in r.notes))
            after = {note.id: note for note in intake.device_reports[-1].notes}
            assert (after["GPU-2"].state, after["GPU-2"].by) == (DeviceState.OK, "")
            assert after["GPU-0"].fault.startswith("XID 79 at ")


async def test_an_intake_that_does_not_answer_is_told_later(broker, tmp_path, stand_in):
    """What is told twice is told once more as it is then."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as foreign:
        stand_in.has(*cards(GPU2={"pids": (foreign.pid,)}))
        async with a_gpu_node(broker, tmp_path, stand_in) as intake:
            await intake.until(lambda: intake.device_reports)
            intake.device_reports.clear()
            intake.forgetful = True  # the agent has to register again
            await intake.until(lambda: intake.device_reports)
            assert [(note.id, note.state) for note in intake.device_reports[0].notes] == [("GPU-2", DeviceState.TAKEN)]
            foreign.communicate(b"\n")


@needs_root
async def test_what_jobs_did_is_sent_again_with_the_same_batch_if_the_answer_was_lost(
    broker, tmp_path, stand_in, monkeypatch
):
    monkeypatch.setattr(device_report, "ASK_TIMEOUT_S", 0.2)
    monkeypatch.setattr(device_report, "GATHER_S", 0.0)
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        intake.loses_device_answers = True
        await intake.order(starts=[with_cards(start_of(1, "sleep", "1000"), "GPU-1")])
        await intake.started(1)
        stand_in.tell("GPU-0", 8, 79)  # the next look comes at once, and sees the job on its card
        first, again = await intake.until(lambda: batches(intake)[1:2] and batches(intake)[:2])
        assert first == again != ""
        intake.loses_device_answers = False
        await intake.order(cancels=[1])
        await intake.ended(1)
        stand_in.tell("GPU-0", 8, 79)
        await intake.until(lambda: batches(intake)[-1] != first)


def batches(intake) -> list[str]:
    """The batches of the reports that say what jobs did."""
    return [report.batch for report in intake.device_reports if report.uses]


async def test_other_cards_than_before_are_registered(broker, tmp_path, stand_in):
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        await intake.until(lambda: intake.registrations)
        stand_in.has(*cards()[:2])
        stand_in.tell("GPU-0", 8, 79)
        await intake.until(lambda: len(states(intake)) == 2)


async def test_cards_that_can_not_be_looked_at_are_not_offered(broker, tmp_path, stand_in, monkeypatch):
    from rankd.services.agent import device_watch

    monkeypatch.setattr(device_watch, "SILENT_S", 0.5)
    monkeypatch.setattr(device_watch, "IDLE_S", 0.1)
    async with a_gpu_node(broker, tmp_path, stand_in) as intake:
        await intake.until(lambda: intake.registrations)
        os.mkfifo(stand_in.directory / "hang")
        stand_in.tell("GPU-0", 8, 79)
        await intake.until(lambda: intake.device_reports)
        notes = intake.device_reports[-1].notes
        assert {note.state for note in notes} == {DeviceState.FAILED}
        assert {note.id for note in notes} == set(MINORS)
        assert all("a card or its driver hangs" in note.reason for note in notes)
        assert not any(note.fault for note in notes)


async def test_a_container_does_not_take_pids_of_its_host_for_its_own(broker, tmp_path, stand_in, monkeypatch, caplog):
    monkeypatch.setattr(device_monitor, "sees_all_processes", lambda: False)
    stand_in.has(*cards(GPU2={"pids": (os.getpid(),)}))
    with caplog.at_level("INFO", "rankd.agent"):
        async with a_gpu_node(broker, tmp_path, stand_in) as intake:
            await intake.until(lambda: intake.registrations)
            assert states(intake)["GPU-2"] == "ok"
    assert "processes outside of jobs are NOT seen from this container" in caplog.text
