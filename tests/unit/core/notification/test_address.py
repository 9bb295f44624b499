"""Which addresses are public: an address that stands for another one does not hide it."""

import pytest

from rankd.core.notification.address import is_public


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "8.8.4.4", "2606:4700:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8", "2606:4700::5efe:808:808"],
)
def test_addresses_of_the_internet(text):
    assert is_public(text)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1",
        "169.254.169.254", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:c0a8:101::",
        "fec0::1", "fec0:0:0:ffff::1", "4000::1", "3fff::1", "192.0.0.8", "192.0.0.9", "192.88.99.1", "2002:a00:1::1",
        "64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "::127.0.0.1", "::ffff:0:127.0.0.1", "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:a00:1", "0177.0.0.1", "0x7f000001", "127.1", "127.0.0.1.",
        "2001:0:0a00:0001::", "localhost", "", "2130706433",
    ],
)  # fmt: skip
def test_all_others(text):
    assert not is_public(text)
