"""Which rankd a command talks to: a table of what was named and found, and what wins."""

import pytest

from rankd.client.place_rule import BrokerFiles, Found, Named, choose, distrust
from rankd.core.errors import Refused

ME, ROOT, OTHER = 1000, 0, 1001
MINE = Found("/work/.rankd", ME, 0o40700)
ABOVE = Found("/.rankd", ROOT, 0o40755)
FILE = (Found("/home/me/.config/rankd/client.toml", ME, 0o100644), "nats://user:1", BrokerFiles())


def own_file():
    return FILE


def nothing():
    return None


@pytest.mark.parametrize(
    ("options", "environment", "directories", "user_file", "named", "reason"),
    [
        (Named(nats="o"), Named(nats="e"), [MINE], own_file, Named(nats="o"), "--nats"),
        (Named(dir="o"), Named(nats="e", db="e"), [MINE], own_file, Named(dir="o"), "--dir"),
        (Named(db="o"), Named(nats="e"), [MINE], own_file, Named(db="o"), "--db"),
        (Named(nats="o", db="d"), Named(dir="e"), [], nothing, Named(nats="o", db="d"), "--nats and --db"),
        (Named(), Named(nats="e"), [MINE], own_file, Named(nats="e"), "$RANKD_NATS"),
        (Named(), Named(dir="e", db="f"), [MINE], own_file, Named(dir="e", db="f"), "$RANKD_DIR and $RANKD_DB"),
        (Named(), Named(), [MINE, ABOVE], own_file, Named(dir="/work/.rankd"), "found /work/.rankd"),
        (Named(), Named(), [ABOVE], own_file, Named(dir="/.rankd"), "found /.rankd"),
        (Named(), Named(), [], own_file, Named(nats="nats://user:1"), "client.toml"),
        (Named(), Named(), [], nothing, Named(), "nothing"),
    ],
)
def test_the_first_source_wins_whole(options, environment, directories, user_file, named, reason):
    chosen = choose(options, environment, directories, user_file, ME)
    assert chosen.named == named
    assert reason in chosen.reason


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (Found("d", ME, 0o40700), None),
        (Found("d", ROOT, 0o40755), None),
        (Found("d", OTHER, 0o40700), "belongs to user 1001"),
        (Found("d", OTHER, 0o41777), "belongs to user 1001"),
        (Found("d", ME, 0o40770), "others than its owner can write to it (mode 0770)"),
        (Found("d", ROOT, 0o40757), "(mode 0757)"),
        (Found("d", ROOT, 0o41777), "(mode 1777)"),
        (Found("d", ME, 0o120777, is_link=True), "symbolic link"),
    ],
)
def test_a_directory_counts_only_if_nobody_else_could_have_written_it(found, why):
    said = distrust(found, ME)
    assert said is None if why is None else why in said


def test_what_does_not_count_is_passed_over_and_named():
    planted = Found("/tmp/.rankd", OTHER, 0o40755)
    loose = Found("/tmp/me/.rankd", ME, 0o40777)
    chosen = choose(Named(), Named(), [loose, planted, ABOVE], own_file, ME)
    assert chosen.named == Named(dir="/.rankd")
    assert [(one.text.partition(":")[0], one.is_own) for one in chosen.passed_over] == [
        ("/tmp/me/.rankd", True),
        ("/tmp/.rankd", False),
    ]


def test_root_does_not_follow_a_users_directory():
    assert (
        distrust(Found("/home/me/.rankd", ME, 0o40700), ROOT) == "it belongs to user 1000, neither to you nor to root"
    )


def test_later_sources_are_not_even_looked_at():
    def never():
        raise AssertionError

    assert choose(Named(nats="o"), Named(), iter(never, None), never, ME).named == Named(nats="o")


def test_a_users_own_file_that_others_can_write_is_an_error():
    def loose():
        return FILE[0]._replace(mode=0o100666), FILE[1], None

    with pytest.raises(Refused, match=r"client\.toml names the broker, but others"):
        choose(Named(), Named(), [], loose, ME)
