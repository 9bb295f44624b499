import msgspec
import pytest

from rankd.core.errors import Refused
from rankd.core.model.job import JobRequest
from rankd.wire.codec import decode_job, decode_strict, decode_submission, encode
from rankd.wire.message import MAX_JOBS_PER_MESSAGE, Health, Heartbeat, JobBatch, JobSelection, JobShow


def refusal(call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    return caught.value.code, caught.value.field, caught.value.status


# --- one job ------------------------------------------------------------------------------------------------


def test_a_command_alone_is_a_job():
    assert decode_submission(b'{"command":["true"]}') == JobRequest(command=["true"])


def test_null_is_as_good_as_absent_where_a_field_is_optional():
    assert decode_job(b'{"command":["true"],"queue":null,"time_limit_s":null}') == JobRequest(command=["true"])


@pytest.mark.parametrize(
    ("payload", "code", "field"),
    [
        (b'{"command":["a"],"nodez":1}', "unknown_field", "nodez"),
        (b'{"command":["a"],"depends_on":[{"type":"after","job":1,"x":2}]}', "unknown_field", "depends_on[0].x"),
        (b"{}", "missing_field", "command"),
        (b'{"command":["a"],"depends_on":[{"job":1}]}', "missing_field", "depends_on[0].type"),
        (b'{"command":"a"}', "bad_field", "command"),
        (b'{"command":["a",1]}', "bad_field", "command[1]"),
        (b'{"command":["a"],"nodes":"1"}', "bad_field", "nodes"),
        (b'{"command":["a"],"nodes":1.5}', "bad_field", "nodes"),
        (b'{"command":["a"],"env":{"A":1}}', "bad_field", "env[...]"),
        (b'{"command":["a"],"depends_on":[{"type":"later","job":1}]}', "bad_field", "depends_on[0].type"),
        (b'{"command":["a"],"exclusive":1}', "bad_field", "exclusive"),
        (b"null", "bad_field", None),
        (b"[]", "bad_field", None),
        (b'"x"', "bad_field", None),
        (b"", "bad_request", None),
        (b"{", "bad_request", None),
        (b'{"command":["a"]} x', "bad_request", None),
        (b"\xff\xfe", "bad_request", None),
        (b'{"command":["\xff"]}', "bad_request", None),
        (b'{"command":["\\ud800"]}', "bad_request", None),
        (b'{"command":["a"],"time_limit_s":NaN}', "bad_request", None),
        (b'{"command":["a"],"time_limit_s":Infinity}', "bad_request", None),
    ],
)
def test_what_is_wrong_with_a_job_is_said_with_its_place(payload, code, field):
    assert refusal(decode_submission, payload) == (code, field, 400)


def test_the_message_names_the_unknown_field():
    with pytest.raises(Refused, match="unknown field 'nodez'"):
        decode_submission(b'{"command":["a"],"nodez":1}')


@pytest.mark.parametrize(
    "payload",
    [
        b'{"command":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"jobs":[' + b"[" * 5000 + b"]" * 5000 + b"]}",
        b'{"x":' + b'{"x":' * 5000 + b"1" + b"}" * 5001,
    ],
)
def test_a_message_nested_without_end_is_an_error_that_the_endpoints_answer(payload):
    with pytest.raises((Refused, RecursionError)):
        decode_submission(payload)


# --- batches ------------------------------------------------------------------------------------------------


def test_bad_jobs_of_a_batch_do_not_spoil_the_others():
    batch = decode_submission(b'{"jobs":[{"command":["a"]},{"nodez":1},7,{"command":["b"]}]}')
    assert isinstance(batch, JobBatch)
    assert not batch.atomic
    assert decode_job(batch.jobs[0]).command == ["a"]
    assert refusal(decode_job, batch.jobs[1])[:2] == ("unknown_field", "nodez")
    assert refusal(decode_job, batch.jobs[2])[:2] == ("bad_field", None)
    assert decode_job(batch.jobs[3]).command == ["b"]


def test_a_batch_may_be_atomic_and_empty():
    batch = decode_submission(b'{"atomic":true,"jobs":[]}')
    assert batch.atomic
    assert batch.jobs == []


@pytest.mark.parametrize(
    ("payload", "code", "field"),
    [
        (b'{"jobs":null}', "bad_field", "jobs"),
        (b'{"jobs":{}}', "bad_field", "jobs"),
        (b'{"jobs":[],"atomic":1}', "bad_field", "atomic"),
        (b'{"jobs":[],"command":["a"]}', "unknown_field", "command"),
        (b'{"jobs":[],"jobz":[]}', "unknown_field", "jobz"),
        (b'{"jobs":[{"command":["a"]}', "bad_request", None),
    ],
)
def test_what_is_wrong_with_a_batch_itself_refuses_all_of_it(payload, code, field):
    assert refusal(decode_submission, payload) == (code, field, 400)


def test_too_many_jobs_are_refused_before_any_is_read():
    def batch(count):
        return b'{"jobs":[' + b",".join([b"{}"] * count) + b"]}"

    assert refusal(decode_submission, batch(MAX_JOBS_PER_MESSAGE + 1)) == ("too_many_jobs", "jobs", 413)
    assert len(decode_submission(batch(MAX_JOBS_PER_MESSAGE)).jobs) == MAX_JOBS_PER_MESSAGE


# --- other messages -------------------------------------------------------------------------------------------


def test_no_payload_is_an_empty_object():
    assert decode_strict(b"", JobSelection) == JobSelection()
    assert refusal(decode_strict, b"", JobShow)[:2] == ("missing_field", "id")


def test_users_messages_refuse_unknown_fields_and_services_messages_tolerate_them():
    assert refusal(decode_strict, b'{"id":1,"idd":2}', JobShow)[:2] == ("unknown_field", "idd")
    newer = b'{"nodes":["n1"],"since_version":2}'
    assert msgspec.json.decode(newer, type=Heartbeat).nodes == ["n1"]


def test_nested_places_are_paths():
    assert refusal(decode_strict, b'{"filter":{"ids":[[]]}}', JobSelection)[:2] == ("bad_field", "filter.ids[0]")
    assert refusal(decode_strict, b'{"filter":{"userz":[]}}', JobSelection)[:2] == ("unknown_field", "filter.userz")


def test_what_is_encoded_is_read_back_the_same():
    request = JobRequest(command=["é", "\0", '"'], env={"A": "ß"}, resources={"vcore": "500m", "x": 1.5}, nodes=2)
    assert decode_job(encode(request)) == request


def test_defaults_are_left_out_of_what_services_send():
    assert encode(Health(service="s", ready=True, pid=1)) == b'{"service":"s","ready":true,"pid":1}'
