"""The choice of devices, written down slowly: it compares all sets of free devices by the rule."""

from itertools import combinations

MODELS = ("a100", "h100", "v100")


def slow_of_model(devices, free, model, number):
    """Step 2 and 3 of the rule, by comparing all sets of this size."""

    def key(chosen):
        groups = {devices[place].group for place in chosen}
        if len(groups) > 1:
            return len(groups), 0, 0, chosen
        members = [place for place, device in enumerate(devices) if device.group in groups]
        return 1, len(members), len(free.intersection(members)), chosen

    own = sorted(place for place in free if devices[place].model == model)
    return set(min(combinations(own, number), key=key)) if len(own) >= number else None


def slow(devices, free, prices, asked):
    left, chosen = set(free), set()
    if asked[0][0] is None:
        asked = slow_models(devices, left, prices, asked[0][1])
    for model, number in asked:
        found = slow_of_model(devices, left, model or "", number)
        if found is None:
            return None
        chosen |= found
        left -= found
    return tuple(sorted(chosen))


def slow_models(devices, free, prices, number):
    """Step 1 of the rule, without a named model."""
    own = {model: sum(devices[place].model == model for place in free) for model in MODELS}
    order = sorted(MODELS, key=lambda model: (prices[model], -own[model], model))
    for model in order:
        if own[model] >= number:
            return ((model, number),)
    if sum(own.values()) < number:
        return (("no such model", 1),)
    listed = [model for model in order for _ in range(own[model])][:number]
    return tuple((model, listed.count(model)) for model in order if model in listed)
