import msgspec
import pytest

from rankd.core.errors import Refused
from rankd.wire.schema import digest, document, of_verb


def references(value):
    """Every ``$ref`` of a document."""
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for inner in value.values() for found in references(inner)]
    return [found for inner in value for found in references(inner)] if isinstance(value, list) else []


def test_every_reference_leads_to_a_definition_and_none_is_left_over():
    whole = msgspec.to_builtins(document())
    assert {name.removeprefix("#/$defs/") for name in references(whole)} == set(whole["$defs"])


@pytest.mark.parametrize("verb", document().verbs)
def test_the_document_of_one_verb_is_whole_and_has_no_more_than_it_needs(verb):
    one = msgspec.to_builtins(of_verb(verb))
    assert {name.removeprefix("#/$defs/") for name in references(one)} == set(one["$defs"])
    assert list(one["verbs"]) == [verb]


def test_requests_of_users_refuse_unknown_fields():
    defs = document().defs
    for verb, schema in document().verbs.items():
        for form in schema.request.get("anyOf", [schema.request]):
            assert defs[form["$ref"].rpartition("/")[2]].get("additionalProperties") is False, verb


def test_a_verb_that_does_not_exist_is_refused():
    with pytest.raises(Refused) as error:
        of_verb("job.sumbit")
    assert (error.value.code, error.value.field, error.value.status) == ("unknown_verb", "verb", 404)


def test_digests_differ_between_forms_and_stay_the_same():
    assert digest("job.submit") == digest("job.submit")
    assert len({digest(verb) for verb in document().verbs}) == len(document().verbs)
