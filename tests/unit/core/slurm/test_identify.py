"""A format is recognised by its content. The first lines are those of Slurm's manuals."""

import pytest

from rankd.core.slurm.identify import NAMES, kind_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("# To edit this file start with a cluster line\nCluster - 'tux':Fairshare=1\nParent - 'root'\n", "dump"),
        ("Cluster|Account|User|Partition|Share\ntux|root|||1\n", "associations"),
        ("Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\nroot||||0||\n", "shares"),
        ("Name|Priority|GraceTime\nnormal|0|00:00:00\n", "qos"),
        ("Configuration data as of 2024-01-01T00:00:00\nPriorityWeightAge       = 1000\n", "config"),
        ("PartitionName=debug Nodes=dev[0-8]\n", "config"),
        ("normal|0|00:00:00\n", None),
        ("", None),
    ],
)
def test_the_content_says_which_format_it_is(text, kind):
    assert kind_of(text) == kind
    assert kind is None or kind in NAMES
