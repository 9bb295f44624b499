from rankd.core.admission.permission import RULES
from rankd.services.intake.delivery import Deliveries
from rankd.services.intake.device_reports import DeviceReports
from rankd.services.intake.node_watch import NodeWatch
from rankd.services.intake.session_verbs import SessionVerbs
from rankd.wire.verb import NODE_VERBS, VERBS


def test_every_verb_that_has_a_rule_has_the_forms_of_its_messages():
    assert set(VERBS) == {action for action in RULES if " " not in action}


def test_every_request_of_nodes_has_the_forms_of_its_messages():
    kinds = (NodeWatch.verbs, Deliveries.verbs, DeviceReports.verbs, SessionVerbs.node_verbs)
    assert set(NODE_VERBS) == {name for verbs in kinds for name in verbs(_Any())}


class _Any:
    """Has any method: the names are what counts here."""

    def __getattr__(self, name):
        return name
