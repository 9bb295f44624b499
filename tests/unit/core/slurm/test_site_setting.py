"""Settings of the whole site."""

from rankd.core.slurm.config import SlurmConfig
from rankd.core.slurm.enforcement import NOTHING_KNOWN, Enforcement
from rankd.core.slurm.reading import Accounting, Reading
from rankd.core.slurm.site_setting import Site, enforcement, site_settings, staff


def settings(*configs, has_accounts=True):
    own = Reading("import")
    enforced = enforcement(configs, own)
    return site_settings(Site(configs, enforced, has_accounts), [], own), [one.message for one in own.remarks]


def test_what_one_file_enforces_is_enforced():
    own = Reading("import")
    configs = [SlurmConfig(enforced=Enforcement(limits=True, associations=True)), SlurmConfig(enforced=Enforcement())]
    assert enforcement(configs, own) == Enforcement(limits=True, associations=True)
    assert own.remarks == []


def test_without_a_file_that_says_so_everything_counts():
    own = Reading("import")
    assert enforcement([SlurmConfig()], own) == NOTHING_KNOWN
    assert len(own.remarks) == 1


def test_slurm_enforced_nothing_so_unknown_users_may_run_jobs():
    found, remarks = settings(SlurmConfig(enforced=Enforcement(), weights={"age": 1.0}))
    assert found == {"admission.unknown_association": "zero"}
    assert any("users whom no account lists may run jobs" in one for one in remarks)


def test_an_enforced_accounting_without_accounts_lets_nobody_in_and_says_so():
    config = SlurmConfig(enforced=Enforcement(associations=True), weights={"age": 1.0})
    found, remarks = settings(config, has_accounts=False)
    assert found == {"admission.unknown_association": "refuse"}
    assert remarks == [
        (
            "no file lists accounts, so nobody may submit (admission.unknown_association); give the output of"
            " `sacctmgr dump` as well"
        )
    ]


def test_without_weights_jobs_go_in_the_order_of_their_submission():
    assert settings(SlurmConfig(enforced=Enforcement()))[0]["priority.policy"] == "fcfs"
    assert "priority.policy" not in settings(SlurmConfig())[0]
    given = SlurmConfig(enforced=Enforcement(), settings={"priority.policy": "class"})
    assert settings(given)[0]["priority.policy"] == "class"


def test_administrators_and_operators():
    own = Reading("import")
    accounting = Accounting(admins=("root", "ann"), operators=("olga",))
    assert staff([accounting], own) == {"admission.admins": ["root", "ann"], "admission.operators": ["olga"]}
    assert next(one.message for one in own.remarks) == "AdminLevel: admission.admins has root, ann"
    assert staff([Accounting()], own) == {}
