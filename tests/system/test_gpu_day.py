"""``make test-gpu-day``: jobs for a day (``SECONDS=N``: for N seconds) on all GPUs of this machine, each of which looks
whether it sees its own ones only. At the end it prints a report, and fails if one job saw anything else.

On a machine with NVIDIA's driver these are its real GPUs, which nothing else may use meanwhile. Elsewhere they are made
up: as root with character devices, so that the kernel's refusals are checked as well. ``make test`` checks the check.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from system import test_gpu_day
from system.client import connected
from system.test_devices import agent_with
from system.test_real_gpu import ENVIRONMENT, LISTED, bare, devices, files_of_cards, uuids_in

SECONDS = float(os.environ.get("RANKD_TEST_GPU_DAY", "0"))
IS_REAL = bool(LISTED) and SECONDS > 0
MINORS = {"g0": 5, "g1": 7, "g2": 8}
"""Of /dev/zero, /dev/full and /dev/random, which open everywhere and which no shell needs."""
MOST_TOLD = 20
SEE = """
ids=$(echo "$RANKD_GPU_IDS" | tr , ' ')
for id in $ids; do mkdir "$OUT/held/$id" || clash="$clash $id"; done
for path in $FILES; do (: <> "$path") 2> /dev/null && opened="$opened $path"; done
{ echo "${RANKD_GPU_IDS-unset}"; echo "${CUDA_VISIBLE_DEVICES-unset}"; echo $opened; echo $clash
  nvidia-smi -L 2> /dev/null; } > "$OUT/seen/$RANKD_JOB_ID"
sleep "$HOLD"
for id in $ids; do rmdir "$OUT/held/$id"; done
"""


class Site(NamedTuple):
    """What jobs may see. ``paths``: of made-up devices, by id. ``files``: of all devices."""

    indices: dict[str, int]
    is_confined: bool
    paths: dict[str, str]
    files: list[str]


class Seen(NamedTuple):
    ids: list
    cuda: str
    opened: list
    clash: str
    listed: set


def read(file: Path) -> Seen:
    ids, cuda, opened, clash, *smi = file.read_text().split("\n")
    return Seen([one for one in ids.split(",") if one], cuda, opened.split(), clash, uuids_in("\n".join(smi)))


def wrong(asked: int, given: list[str], seen: Seen, site: Site) -> list[str]:
    """What a job that was given these devices has seen and should not have, or the reverse."""
    own = sorted(given, key=site.indices.__getitem__)
    cuda = list(own) if IS_REAL else [str(site.indices[id_]) for id_ in own]
    if IS_REAL and site.is_confined:
        cuda = [str(place) for place in range(len(own))]
    paths = [site.paths[id_] for id_ in own if id_ in site.paths]
    opened_others = len(seen.opened) > len(own) or (not IS_REAL and seen.opened != paths)
    lists_others = IS_REAL and {*map(bare, seen.listed)} != {*map(bare, own)}
    checks = {
        f"asked for {asked} devices and got {given}": len(given) != asked,
        f"RANKD_GPU_IDS is {seen.ids}, not {own}": seen.ids != own,
        f"CUDA_VISIBLE_DEVICES is {seen.cuda}, not {cuda}": seen.cuda != ",".join(cuda),
        f"another job held {seen.clash}": bool(seen.clash),
        f"opened {seen.opened}, not {paths or len(own)}": site.is_confined and opened_others,
        f"nvidia-smi lists {sorted(seen.listed)}, not {own}": site.is_confined and lists_others,
    }
    return [message for message, is_wrong in checks.items() if is_wrong]


def make_devices(directory: Path) -> dict[str, str]:
    """A file ``devices.toml``; with character devices if this user may make some. Their paths by id."""
    paths = {}
    for id_, minor in MINORS.items() if os.geteuid() == 0 else ():
        paths[id_] = str(directory / id_)
        os.mknod(paths[id_], stat.S_IFCHR | 0o666, os.makedev(1, minor))
    tables = [
        f'[[device]]\nmodel = "a100"\nid = "{id_}"\nindex = {index}\n'
        + (f"path = {json.dumps(paths[id_])}\n" if paths else "")
        for index, id_ in enumerate(MINORS)
    ]
    (directory / "devices.toml").write_text("".join(tables))
    return paths


@contextlib.asynccontextmanager
async def a_site(machine, directory: Path) -> AsyncIterator[tuple[object, Site]]:
    """A rankd with this machine's GPUs, or with made-up ones."""
    async with contextlib.AsyncExitStack() as stack:
        machine.start(*(["--name", "lab", "--resources", "vcore=256"] if IS_REAL else ["--no-local-agent"]))
        client = await stack.enter_async_context(connected(machine.up["nats"], machine.services))
        paths = {} if IS_REAL else make_devices(directory)
        if not IS_REAL:
            machine.credentials("node", "lab")
            await stack.enter_async_context(agent_with(machine, client, directory / "devices.toml"))
        [node] = json.loads(machine.rankd("nodes", "-N", "-l", "--json"))
        indices = {id_: row["index"] for id_, row in devices(machine).items()}
        is_confined = "can open no device" in node["confinement"]
        yield client, Site(indices, is_confined, paths, files_of_cards() if IS_REAL else list(paths.values()))


@pytest.mark.skipif(not SECONDS, reason="run by make test-gpu-day")
async def test_each_job_sees_its_own_gpus_only(machine, tmp_path, capsys):
    for name in ("held", "seen"):
        (tmp_path / name).mkdir()
    told, jobs = list[str](), 0
    async with a_site(machine, tmp_path) as (client, site):
        began = time.monotonic()
        env = ENVIRONMENT | {"PATH": os.environ["PATH"], "OUT": str(tmp_path), "FILES": " ".join(site.files)}
        while not jobs or time.monotonic() - began < SECONDS:
            sizes = [number % (len(site.indices) + 1) for number in range(jobs, jobs + 4 * len(site.indices))]
            holds = [str(number % 5 if SECONDS > 10 else 0) for number, _ in enumerate(sizes)]
            asked = [
                {"command": ["sh", "-c", SEE], "env": env | {"HOLD": hold}, "resources": {"vcore": 0.1, "gpu": size}}
                for size, hold in zip(sizes, holds, strict=True)
            ]
            ids = await client.submit("alice", *asked)
            jobs += len(ids)
            await client.until_ended(jobs)
            for job, size in zip(ids, sizes, strict=True):
                given = [row["id"] for row in machine.rows("SELECT id FROM job_device WHERE job = ?", job)]
                ended, file = client.ended[job], tmp_path / "seen" / str(job)
                found = wrong(size, given, read(file), site) if file.exists() else ["it has written nothing"]
                told += [f"job {job}: {one}" for one in [*found, *([] if ended == "completed" else [ended])]]
                file.unlink(missing_ok=True)
    report = {
        "seconds": round(time.monotonic() - began), "jobs": jobs, "wrong": len(told), "first": told[:MOST_TOLD],
        "devices": len(site.indices), "real": IS_REAL, "confined": site.is_confined,
    }  # fmt: skip
    with capsys.disabled():
        print(f"\n{json.dumps(report, indent=1)}")  # noqa: T201 - the report
    assert not told, report


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Seen(["g1"], "0", ["/g0"], "", set()), "RANKD_GPU_IDS is"),
        (Seen(["g0"], "0,1", ["/g0"], "", set()), "CUDA_VISIBLE_DEVICES is"),
        (Seen(["g0"], "0", ["/g0", "/g1"], "", set()), "opened"),
        (Seen(["g0"], "0", ["/g0"], "g0", set()), "another job held"),
    ],
)
def test_what_is_wrong_is_found(seen, said, monkeypatch):
    monkeypatch.setattr(test_gpu_day, "IS_REAL", False)
    site = Site({"g0": 0, "g1": 1}, True, {"g0": "/g0", "g1": "/g1"}, ["/g0", "/g1"])
    assert wrong(1, ["g0"], Seen(["g0"], "0", ["/g0"], "", set()), site) == []
    assert [one.startswith(said) for one in wrong(1, ["g0"], seen, site)] == [True]
    assert wrong(2, ["g0"], Seen(["g0"], "0", ["/g0"], "", set()), site)[0].startswith("asked for 2")
