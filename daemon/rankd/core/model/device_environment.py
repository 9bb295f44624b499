"""The variables that show a job its devices, and hide the others from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankd.core.model.device import AssignedDevice

NVIDIA, AMD = "nvidia", "amd"
_HIDING = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Empty for jobs without GPUs, so that they do not use GPU 0 by accident."""


def device_variables(
    devices: Sequence[AssignedDevice], vendors: Mapping[str, str], *, confines: bool = False
) -> dict[str, str]:
    """The variables of a job with these devices, in the order of their indices; without any, all are empty.

    ``vendors`` by id: ``nvidia`` or ``amd``. Other devices are made up. Programs see an NVIDIA or AMD device by its id,
    and a made-up one by its index. ``confines``: the job can't open other devices. Then NVIDIA's library numbers those
    that are left from 0, and programs see them by these numbers.

    >>> device_variables([], {})["CUDA_VISIBLE_DEVICES"]
    ''
    """
    amd = [device.id for device in devices if vendors.get(device.id) == AMD]
    named = [device for device in devices if vendors.get(device.id) == NVIDIA]
    others = [str(place) for place in range(len(named))] if confines else [device.id for device in named]
    others += [str(device.index) for device in devices if device.id not in vendors]
    shown = dict.fromkeys(_HIDING[:2], ",".join(others)) | {_HIDING[2]: ",".join(amd)}
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if devices else {}
    return {
        **shown,
        **order,
        "RANKD_GPUS": ",".join(str(device.index) for device in devices),
        "RANKD_GPU_IDS": ",".join(device.id for device in devices),
    }
