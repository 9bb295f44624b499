"""Limits among options, from a dump and from tables."""

from rankd.core.slurm.assoc import parse_associations
from rankd.core.slurm.limit_line import OF_QOS, limits_in
from rankd.core.slurm.qos import parse_qos
from rankd.core.slurm.reading import Limit, Reading
from rankd.core.slurm.sacctmgr_dump import parse_dump


def test_limits_are_found_by_their_names_and_unset_ones_are_not():
    fields = {"grptres": "cpu=4", "maxtrespu": "", "maxtresperuser": "(null)", "maxjobs": "3"}
    assert limits_in(fields, OF_QOS, "high", 7) == (Limit(owner="high", line=7, key="grptres", text="cpu=4"),)


def test_a_dump_does_not_quote_models():
    reading = Reading("dump")
    text = (
        "QOS - 'gpu':GrpTRES=cpu=64,gres/gpu:a100=4,gres/gpu=8:MaxTRESPerUser=gres/gpu=2:Priority=3\n"
        "Cluster - 'x'\nParent - 'root'\nAccount - 'a':GrpTRES=gres/gpu:h100=4:Fairshare=2\nParent - 'a'\n"
        "User - 'u':GrpTRES='gres/gpu:v100=1,mem=4G':Fairshare=3\n"
    )
    found = parse_dump(text, reading)
    assert [str(limit) for limit in found.qos_limits] == [
        "GrpTRES=cpu=64,gres/gpu:a100=4,gres/gpu=8", "MaxTRESPerUser=gres/gpu=2",
    ]  # fmt: skip
    assert [str(limit) for limit in found.user_limits] == ["GrpTRES=gres/gpu:v100=1,mem=4G"]
    assert found.qos[0].priority == 3
    assert [entry.shares for entry in found.associations] == [2, 3]
    assert [str(limit) for limit in found.account_limits] == ["GrpTRES=gres/gpu:h100=4"]
    assert reading.remarks == []


def test_tables_have_limits_of_users_and_of_qos():
    reading = Reading("tables")
    text = "Cluster|Account|User|Share|GrpTRES|MaxTRES\nx|root||1||\nx| a||1|gres/gpu=9|\nx| a|u|1|gres/gpu=4|cpu=2\n"
    found = parse_associations(text, reading)
    assert [(limit.owner, limit.text) for limit in found.user_limits] == [("u", "gres/gpu=4")]
    assert [(limit.owner, limit.text) for limit in found.account_limits] == [("a", "gres/gpu=9")]
    [remark] = reading.remarks
    assert remark.message.startswith("user 'u' in 'a': no equivalent in rankd for MaxTRES=cpu=2; ")
    qos = parse_qos("Name|Priority|GrpTRES|MaxTRESPU\ngpu|1|gres/gpu=8|gres/gpu=2\n", Reading("qos"))
    assert [str(limit) for limit in qos.qos_limits] == ["GrpTRES=gres/gpu=8", "MaxTRESPerUser=gres/gpu=2"]
