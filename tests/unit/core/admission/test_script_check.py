"""What the text of a script must be, and how large it may be."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from builder import admission_tables

from rankd.core.admission.admit import admit
from rankd.core.admission.job_size import MAX_JOB_BYTES
from rankd.core.admission.script_check import MAX_JSON_BYTES, bytes_in_json, check_script
from rankd.core.admission.submitter import Submitter
from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.core.model.setting import AdmissionSettings

MOST = AdmissionSettings().max_script_bytes
MAX_PAYLOAD = 2**20
"""Of a NATS server by default."""


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("", "does not begin with #!"),
        ("echo hello\n", "does not begin with #!"),
        (" #!/bin/sh\n", "does not begin with #!"),
        ("#!", "does not begin with #!"),
        ("#! \t\n/bin/sh", "does not begin with #!"),
        ("\x7fELF\x02", "does not begin with #!"),
        ("#!/bin/bash\r\necho\r\n", "dos2unix"),
        ("#!/bin/sh\n\0", "NUL"),
        ("#!/bin/sh\n\ud800", "surrogate"),
    ],
)
def test_what_no_kernel_could_execute_is_refused(script, why):
    with pytest.raises(Refused, match=why) as refused:
        check_script(script, MOST)
    assert (refused.value.code, refused.value.field, refused.value.status) == ("bad_script", "script", 400)


@pytest.mark.parametrize("script", ["#!/bin/sh", "#! /usr/bin/env python3\nprint('ä')\n", "#!/bin/sh\necho '\r'\n"])
def test_scripts_are_accepted(script):
    check_script(script, MOST)


def test_the_limit_is_in_bytes_and_names_the_setting():
    script = "#!/bin/sh\n" + "ä" * 100
    check_script(script, 210)
    with pytest.raises(Refused, match=r"210 bytes, 209 are allowed \(admission.max_script_bytes\)") as refused:
        check_script(script, 209)
    assert (refused.value.code, refused.value.status) == ("script_too_large", 413)


def test_no_script_is_allowed_where_the_limit_is_0():
    with pytest.raises(Refused, match="0 are allowed"):
        check_script("#!/bin/sh", 0)


def test_a_text_that_json_makes_many_times_longer_is_refused():
    check_script("#!/bin/sh\n" + 'x="$y"\n' * (MOST // 7 - 2), MOST)  # an eighth of it is line ends, a quarter quotes
    with pytest.raises(Refused, match="as JSON") as refused:
        check_script("#!/bin/sh\n" + "\x01" * (MOST - 10), MOST)
    assert (refused.value.code, refused.value.status) == ("script_too_large", 413)


def test_the_largest_script_fits_into_one_message_wherever_it_goes():
    """Its node gets it in base64 beside the largest request; who asks for it gets it as JSON."""
    assert len(base64.b64encode(b"x" * MOST)) + MAX_JOB_BYTES < MAX_PAYLOAD * 0.95
    assert MAX_JSON_BYTES + len(json.dumps({"id": 2**63, "script": ""})) < MAX_PAYLOAD


def test_a_submission_is_held_to_it():
    request = JobRequest(command=["train.sh"], script="true")
    with pytest.raises(Refused, match="#!"):
        admit(request, Submitter("alice", privileged=True), admission_tables())


def test_each_character_counts_as_many_bytes_as_the_answer_takes_for_it():
    for code in (*range(0xD800), *range(0xE000, 0x11000)):
        assert bytes_in_json(chr(code)) == len(msgspec.json.encode(chr(code)))
