"""Settings of the site from all files together: what is enforced, the policy, the time limit, the administrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rankd.core.slurm.config import SlurmConfig, Value
from rankd.core.slurm.enforcement import NOTHING_KNOWN, Enforcement
from rankd.core.slurm.node_partition import Placed
from rankd.core.slurm.queue import default_time
from rankd.core.slurm.reading import Accounting, Reading


class Site(NamedTuple):
    """The files about the cluster, what Slurm enforces, and whether a file lists accounts."""

    configs: Sequence[SlurmConfig]
    enforced: Enforcement
    has_accounts: bool


def enforcement(configs: Sequence[SlurmConfig], own: Reading) -> Enforcement:
    """What Slurm enforces, by all files together."""
    found = [one.enforced for one in configs if one.enforced is not None]
    if not found:
        own.remark(0, "no file has AccountingStorageEnforce (scontrol show config), so all of the accounting counts")
        return NOTHING_KNOWN
    return Enforcement(
        associations=any(one.associations for one in found),
        limits=any(one.limits for one in found),
        qos=any(one.qos for one in found),
    )


def site_settings(site: Site, partitions: Sequence[Placed], own: Reading) -> dict[str, Value]:
    """The settings by rankd's dotted keys."""
    enforced = site.enforced.associations
    settings: dict[str, Value] = {"admission.unknown_association": "refuse" if enforced else "zero"}
    settings |= {key: value for one in site.configs for key, value in one.settings.items()}
    if enforced and not site.has_accounts:
        message = "no file lists accounts, so nobody may submit (admission.unknown_association)"
        own.remark(0, f"{message}; give the output of `sacctmgr dump` as well")
    if not enforced:
        message = "Slurm enforces no accounts (AccountingStorageEnforce), so users whom no account lists may run jobs"
        own.remark(0, f'{message}, with fair share 0 (unknown_association = "zero"; "default" gives each a share)')
    general = any(one.enforced is not None for one in site.configs)
    if general and not any(one.weights for one in site.configs) and "priority.policy" not in settings:
        own.remark(0, "no weight is set, so jobs go in the order of their submission: policy = fcfs")
        settings["priority.policy"] = "fcfs"
    if (limit := default_time(partitions, own)) is not None:
        settings["scheduling.default_time_limit_s"] = limit
    return settings


def staff(accounting: Sequence[Accounting], own: Reading) -> dict[str, Value]:
    """Administrators and operators of the accounting."""
    found: dict[str, Value] = {}
    for one in accounting:
        for key, names in (("admins", one.admins), ("operators", one.operators)):
            if names:
                found[f"admission.{key}"] = list(names)
                own.remark(0, f"AdminLevel: admission.{key} has {', '.join(names)[:200]}")
    return found
