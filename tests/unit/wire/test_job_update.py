"""What is left out of an update stays; null is a value."""

import msgspec

from rankd.core.model.job import CHANGEABLE_FIELDS, JobRequest
from rankd.wire.job_update import JobUpdate


def test_only_what_is_named_changes_and_null_takes_off():
    update = msgspec.json.decode(b'{"id": 7, "time_limit_s": null, "nodes": 2}', type=JobUpdate)
    assert update.given() == {"time_limit_s": None, "nodes": 2}


def test_the_selection_and_the_fixed_priority_are_no_fields_of_the_request():
    assert JobUpdate(id=7, dry_run=True, fixed_priority=3).given() == {}
    assert set(CHANGEABLE_FIELDS) <= {*JobRequest.__struct_fields__}
