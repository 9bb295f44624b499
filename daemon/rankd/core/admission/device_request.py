"""What jobs may ask of devices: whole ones, either of any model or of named models."""

from __future__ import annotations

from collections.abc import Mapping

from rankd.core.errors import Refused
from rankd.core.model.device import GPU, is_device_kind, is_model, model_of, with_sum
from rankd.core.model.quantity import Amount, Resources, parse_resources
from rankd.core.near_name import cut


def read_request(given: Mapping[str, Amount]) -> Resources:
    """The amounts per node that a job asks for. If they name models of devices, their sum is added as ``gpu``.

    Raises:
        Refused: ``bad_resources``: ``gpu`` beside a model, a part of a device, or a name that no model can have;
            ``bad_quantity``.
    """
    for kind, value in given.items():
        if is_device_kind(kind):
            _check_device(kind, value)
    amounts = parse_resources(given)
    named = sorted(kind for kind in amounts if model_of(kind) is not None)
    if named and GPU in amounts:
        message = f"the job asks for gpu and for {named[0]}; name all models, or ask for gpu alone"
        raise Refused("bad_resources", message, f"resources.{GPU}")
    return with_sum(amounts)


def _check_device(kind: str, value: Amount) -> None:
    model = model_of(kind)
    if model is not None and not is_model(model):
        message = f"'{cut(kind)}' names no model; write gpu:MODEL in lower case, such as gpu:a100"
        raise Refused("bad_resources", message, "resources")
    is_part = value.strip().endswith("m") if isinstance(value, str) else value != value or value % 1 != 0  # noqa: PLR0124 - NaN
    if is_part:
        message = f"{kind}: {cut(str(value))} is a part of a device; ask for whole ones"
        raise Refused("bad_resources", message, f"resources.{kind}")
