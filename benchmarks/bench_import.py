"""``rankd import slurm`` on a tree of 5,000 users in 220 accounts, as `sacctmgr dump` writes it: the whole command."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measure import report, summary

DEPARTMENTS, GROUPS, USERS = 20, 10, 25
ROUNDS = 5


def dump(chance: random.Random) -> str:
    """A dump with departments, their groups, and their users."""
    lines = [
        "Cluster - 'hpc':Fairshare=1:QOS='normal':DefaultQOS='normal'",
        "Parent - 'root'",
        "User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1",
    ]
    departments = [f"dep{number}" for number in range(DEPARTMENTS)]
    lines += [
        f"Account - '{name}':Description='{name}':Organization='site':Fairshare={chance.randint(1, 500)}"
        for name in departments
    ]
    groups = {name: [f"{name}g{number}" for number in range(GROUPS)] for name in departments}
    for name, below in groups.items():
        lines.append(f"Parent - '{name}'")
        lines += [f"Account - '{group}':Fairshare={chance.randint(1, 100)}:GrpTRES=cpu=100" for group in below]
    for group in (group for below in groups.values() for group in below):
        lines.append(f"Parent - '{group}'")
        lines += [
            f"User - '{group}u{number:02d}':DefaultAccount='{group}':Fairshare={chance.randint(1, 20)}"
            for number in range(USERS)
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and report."""
    with tempfile.TemporaryDirectory(prefix="rankd-bench-") as directory:
        file = Path(directory) / "hpc.cfg"
        file.write_text(dump(random.Random(1)), encoding="utf-8")
        times = []
        for number in range(ROUNDS):
            command = [sys.executable, "-m", "rankd", "import", "slurm", str(file), "-o", f"{directory}/etc{number}"]
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - begin)
    users = DEPARTMENTS * GROUPS * USERS
    report("import", f"{users} users, seconds of {ROUNDS} runs", [{"what": "rankd import slurm"} | summary(times)])


if __name__ == "__main__":
    main()
