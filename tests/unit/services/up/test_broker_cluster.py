"""Brokers of a cluster, as an administrator names them."""

import pytest

from rankd.core.errors import Refused
from rankd.services.up.broker_cluster import Member, check_members, read_member


@pytest.mark.parametrize(
    ("text", "member", "url"),
    [
        ("b1=10.0.0.1", Member("b1", "10.0.0.1"), "tls://10.0.0.1:4222"),
        ("b1=head:4223:6223", Member("b1", "head", 4223, 6223), "tls://head:4223"),
        ("b-2=[fd00::1]:4223", Member("b-2", "[fd00::1]", 4223), "tls://[fd00::1]:4223"),
    ],
)
def test_a_broker_has_a_name_a_host_and_ports(text, member, url):
    assert read_member(text) == member
    assert member.url == url


@pytest.mark.parametrize("text", ["b1", "=h", "b1=", "b 1=h", "b1=h:x", 'b1=h"', "b1=a,b", "b1=h:1:2:3", "b1=h\n"])
def test_other_texts_are_refused(text):
    with pytest.raises(Refused, match="is not a broker; write NAME=HOST"):
        read_member(text)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["a=h1", "b=h2"], "2 brokers are no cluster"),
        (["a=h1", "b=h2", "c=h3", "d=h4"], "4 brokers are no cluster"),
        (["a=h1", "a=h2", "c=h3"], "the same name"),
        (["a=h", "b=h:4223:6223", "c=h:4224:4222"], "the same host and port"),
    ],
)
def test_what_can_form_no_cluster_is_refused(members, said):
    with pytest.raises(Refused, match=said):
        check_members([read_member(text) for text in members])


def test_three_on_one_host_with_other_ports_are_a_cluster():
    check_members([read_member(text) for text in ("a=h", "b=h:4223:6223", "c=h:4224:6224")])
