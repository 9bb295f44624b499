"""The unit tests mirror the source: each pure module has a test of its own, or a reason why not.

A module that decides something has ``tests/unit/PATH/test_MODULE.py``. Where its rule is stated by another test, as by
a property, :data:`ELSEWHERE` names that test. Modules of the store whose functions run SQL have contract tests, which
``tests/contract/test_completeness.py`` asks for function by function.
"""

from pathlib import Path

import pytest
from contract import completeness

import rankd

ROOT = Path(__file__).parents[2]
SOURCE = Path(rankd.__file__).parent
ROOMS = (
    "core",
    "wire",
    "identity",
    "config",
    "plugin",
    "bus",
    "mirror",
    "services/agent",
    "services/gateway",
    "services/keeper",
    "services/watcher",
    "store",
    "client",
    "cli",
)
RUNS_SQL = {f"{module.removeprefix('rankd.').replace('.', '/')}.py" for module, _ in completeness.verbs()}

DECLARES = {
    "core/model/job_place.py": "a record",
    "bus/tls_files.py": "a record",
    "wire/enrolment.py": "records",
    "cli/jobs/delivered.py": "a record",
    "core/admission/submitter.py": "a record",
    "core/adapter/source.py": "a protocol and what it is built with",
    "core/change/job_change.py": "records of decisions",
    "core/evaluate/result.py": "records of results",
    "core/fairshare/algorithm.py": "chooses one of two algorithms",
    "core/fairshare/result.py": "a record of arrays",
    "core/forecast/live.py": "records of a forecast's input",
    "core/model/access.py": "records of lists",
    "core/model/association.py": "a record",
    "core/model/int32.py": "two numbers",
    "core/model/node.py": "a record and its states",
    "core/model/report.py": "a record",
    "core/model/priority_class.py": "a record",
    "core/model/setting.py": "records of settings; reading them is config/settings.py's",
    "core/placement/problem.py": "records of a cycle's input and output",
    "core/ranking/application_sort.py": "a protocol",
    "plugin/worker_state.py": "a record and its states",
    "services/agent/runner.py": "a protocol",
    "services/keeper/surroundings.py": "a record",
    "services/watcher/message.py": "records of messages",
    "store/engine/database.py": "a protocol",
    "store/schema/allocation_table.py": "tables",
    "store/schema/device_table.py": "tables",
    "store/schema/catalog_table.py": "tables",
    "store/schema/generation_table.py": "tables",
    "store/schema/job_table.py": "tables",
    "store/schema/letter_table.py": "tables",
    "store/schema/metadata.py": "the collection of tables",
    "store/schema/notification_table.py": "tables",
    "store/schema/service_table.py": "tables",
    "store/schema/table.py": "names of all tables",
    "wire/configuration.py": "records of messages",
    "wire/dead_letter.py": "records of messages",
    "wire/delivery.py": "records of messages",
    "wire/device.py": "records of messages",
    "wire/stream.py": "records of messages",
    "wire/diag.py": "records of messages",
    "wire/event.py": "records of messages",
    "wire/job_selection.py": "records of messages",
    "wire/job_record.py": "records of messages",
    "wire/login_size.py": "a limit",
    "wire/message.py": "names of all messages",
    "wire/node.py": "records of messages",
    "wire/page.py": "records of messages",
    "wire/rank_record.py": "records of messages",
    "wire/report.py": "records of messages",
    "wire/schema_record.py": "records of messages",
    "wire/site.py": "records of messages",
    "wire/submission.py": "records of messages",
    "wire/table_record.py": "records of messages",
}
"""Modules without a rule that a test could state."""

WAITS = {
    "cli/common/bus_source.py": "asks over a connection",
    "client/async_bus.py": "a connection",
    "client/session.py": "a connection",
    "client/attachment.py": "a connection",
    "client/interaction.py": "connections",
    "client/run_job.py": "a connection",
    "cli/jobs/run.py": "a job and a terminal",
    "cli/jobs/terminal.py": "a terminal",
    "client/thread.py": "a connection",
    "cli/jobs/deadletter.py": "asks over a connection",
    "bus/connection.py": "a connection",
    "bus/consumer.py": "a broker's consumers",
    "bus/diag_request.py": "asks over a connection",
    "bus/endpoint.py": "answers over a connection",
    "bus/health.py": "asks over a connection",
    "bus/lasting_subscription.py": "looks into nats-py's subscriptions",
    "bus/stream.py": "a broker's streams",
    "bus/stream_check.py": "asks a broker",
    "bus/stream_watch.py": "asks a broker",
    "plugin/process.py": "a process",
    "plugin/worker.py": "a process",
    "plugin/worker_factor.py": "processes and threads",
    "bus/account_update.py": "asks over a connection",
    "bus/access_check.py": "asks over a connection",
    "services/gateway/service.py": "a socket and a broker",
    "services/gateway/enrolment.py": "answers over a connection",
    "services/gateway/issuer.py": "asks over a connection",
    "services/agent/renewal.py": "asks over a connection",
    "bus/enrolment.py": "asks over a connection",
    "services/agent/allocation_request.py": "asks over a connection",
    "services/agent/device_report.py": "asks over a connection",
    "services/agent/device_watch.py": "a process",
    "services/agent/attach_session.py": "a relay and a broker",
    "services/agent/interactive_jobs.py": "a keeper and relays",
    "services/agent/real_node.py": "a keeper",
    "services/agent/registration.py": "asks over a connection",
    "services/agent/service.py": "a broker and a runner",
    "services/agent/session_service.py": "a broker, and sessions",
    "services/agent/vouching.py": "a socket and a broker",
    "services/keeper/helper.py": "forks",
    "services/keeper/job_run.py": "a job's processes",
    "services/keeper/link.py": "a process",
    "services/keeper/process.py": "a process",
    "services/keeper/relay.py": "a process and its streams",
    "services/keeper/relay_process.py": "a process",
    "services/keeper/service.py": "an agent and jobs",
    "services/keeper/step_run.py": "a job's processes",
    "services/keeper/terminal.py": "a terminal",
    "services/keeper/spawn.py": "a process",
    "services/watcher/service.py": "an agent",
}
"""Modules that wait for a broker or a process: ``tests/integration`` has them for real."""

ELSEWHERE = {
    "client/up_file.py": "tests/unit/client/test_place.py",
    "cli/what_if/simulate_plot.py": "tests/unit/cli/what_if/test_simulate.py",
    "cli/what_if/simulate_progress.py": "tests/unit/cli/what_if/test_simulate.py",
    "cli/what_if/simulate_report.py": "tests/unit/cli/what_if/test_simulate.py",
    "core/forecast/holding.py": "tests/properties/test_forecast.py",
    "core/forecast/partition_run.py": "tests/properties/test_forecast.py",
    "core/forecast/queue.py": "tests/properties/test_forecast.py",
    "core/forecast/run.py": "tests/properties/test_forecast.py",
    "core/placement/within_quota.py": "tests/properties/test_device_placement.py",
    "cli/administer/auth_brokers.py": "tests/integration/test_auth_brokers.py",
    "cli/administer/auth_check.py": "tests/system/test_auth_check.py",
    "cli/administer/auth_external.py": "tests/system/test_auth_check.py",
    "cli/administer/auth_command.py": "tests/system/test_identity.py",
    "cli/administer/auth_invite.py": "tests/system/test_invitation.py",
    "cli/administer/auth_user.py": "tests/system/test_invitation.py",
    "cli/administer/site_access.py": "tests/system/test_invitation.py",
    "cli/administer/diag.py": "tests/integration/test_diag.py",
    "cli/administer/node_command.py": "tests/system/test_nodes.py",
    "cli/administer/reload.py": "tests/system/test_reload.py",
    "cli/administer/streams.py": "tests/integration/test_rights.py",
    "cli/common/channel.py": "tests/system/test_socket_requests.py",
    "cli/common/counterpart.py": "tests/unit/cli/test_main.py",
    "cli/common/database_source.py": "tests/unit/cli/look/test_look.py",
    "cli/common/record_source.py": "tests/unit/cli/look/test_look.py",
    "cli/common/session.py": "tests/system/test_socket_requests.py",
    "client/async_channel.py": "tests/system/test_client.py",
    "client/batch/fill.py": "tests/unit/client/batch/test_layer.py",
    "client/batch/script_job.py": "tests/unit/client/test_job_form.py",
    "client/batch/option.py": "tests/unit/client/batch/test_layer.py",
    "client/client.py": "tests/system/test_client.py",
    "client/operation.py": "tests/system/test_client.py",
    "client/sync_client.py": "tests/system/test_client.py",
    "cli/configure/class_change.py": "tests/system/test_class.py",
    "cli/configure/class_command.py": "tests/system/test_class.py",
    "cli/configure/config_history.py": "tests/system/test_reload.py",
    "cli/jobs/cancel_hold_release.py": "tests/unit/cli/jobs/test_delivery.py",
    "cli/jobs/submit.py": "tests/unit/client/batch/test_request.py",
    "cli/look/acct.py": "tests/unit/cli/look/test_look.py",
    "cli/look/event_follower.py": "tests/integration/test_watch.py",
    "cli/look/nodes.py": "tests/unit/cli/look/test_look.py",
    "cli/look/prio.py": "tests/unit/cli/look/test_look.py",
    "cli/look/queue.py": "tests/unit/cli/look/test_look.py",
    "cli/look/queues.py": "tests/unit/cli/look/test_look.py",
    "cli/look/share.py": "tests/unit/cli/look/test_look.py",
    "cli/look/show.py": "tests/unit/cli/look/test_look.py",
    "cli/look/watch.py": "tests/unit/cli/test_watch.py",
    "cli/run/demo.py": "tests/system/test_current_directory.py",
    "cli/run/demo_screen.py": "tests/integration/test_demo_screen.py",
    "cli/run/demo_story.py": "tests/integration/test_demo_screen.py",
    "cli/run/login.py": "tests/system/test_invitation.py",
    "cli/run/up.py": "tests/system/test_up.py",
    "cli/services/db_backup.py": "tests/integration/test_db_copy.py",
    "cli/services/db_copy.py": "tests/integration/test_db_copy.py",
    "cli/run/up_encryption.py": "tests/system/test_tls.py",
    "cli/services/agent_enrolment.py": "tests/system/test_enrolment.py",
    "cli/services/db.py": "tests/unit/cli/look/test_look.py",
    "cli/services/health.py": "tests/integration/test_liveness.py",
    "cli/services/process.py": "tests/system/test_service_signal.py",
    "cli/services/service_command.py": "tests/unit/cli/services/test_service_option.py",
    "cli/what_if/dump.py": "tests/system/test_source.py",
    "cli/what_if/evaluate.py": "tests/system/test_evaluate.py",
    "cli/what_if/whatif.py": "tests/system/test_source.py",
    "core/admission/admission_cache.py": "tests/properties/test_admission.py",
    "config/adapter.py": "tests/integration/test_adapter_process.py",
    "config/checked.py": "tests/integration/test_reload.py",
    "config/evaluation.py": "tests/properties/test_evaluate.py",
    "config/yaml_reader.py": "tests/unit/config/test_queues.py",
    "config/queue_draft.py": "tests/unit/config/test_queues.py",
    "config/queue_property.py": "tests/unit/config/test_queues.py",
    "config/queue_rule.py": "tests/unit/config/test_queues.py",
    "config/what_if_document.py": "tests/integration/test_whatif.py",
    "core/evaluate/inventory.py": "tests/unit/core/evaluate/test_answer.py",
    "core/fairshare/deep_tree.py": "tests/properties/test_fairshare.py",
    "core/placement/case.py": "tests/unit/core/placement/test_cycle.py",
    "core/placement/common_reason.py": "tests/properties/test_cycle_memory.py",
    "core/placement/cycle_memory.py": "tests/properties/test_cycle_memory.py",
    "core/placement/free_step.py": "tests/properties/test_free_step.py",
    "core/placement/queue_tree.py": "tests/unit/core/placement/test_traversal.py",
    "core/placement/room_table.py": "tests/properties/test_cycle_memory.py",
    "core/ranking/application_order.py": "tests/unit/core/evaluate/test_application.py",
    "core/ranking/base_order.py": "tests/properties/test_delta.py",
    "core/ranking/delta.py": "tests/properties/test_delta.py",
    "core/ranking/queue_tally.py": "tests/properties/test_delta.py",
    "core/slurm/writing.py": "tests/properties/test_slurm.py",
    "mirror/live_order.py": "tests/properties/test_view.py",
    "bus/login.py": "tests/system/test_gateway.py",
    "services/agent/file_reader.py": "tests/integration/test_file_reader.py",
    "services/agent/log_file.py": "tests/integration/test_file_reader.py",
    "services/agent/user_reader.py": "tests/integration/test_file_reader.py",
    "services/agent/session.py": "tests/system/test_logs.py",
    "client/log_stream.py": "tests/system/test_logs.py",
    "cli/look/logs.py": "tests/system/test_logs.py",
    "services/agent/device_monitor.py": "tests/integration/test_agent_device.py",
    "services/agent/leftover.py": "tests/integration/test_agent_state.py",
    "services/keeper/bpf.py": "tests/integration/test_device_group.py",
    "services/keeper/cgroup.py": "tests/integration/test_agent_limit.py",
    "services/keeper/cgroup_device.py": "tests/integration/test_device_group.py",
    "services/keeper/cgroup_job.py": "tests/integration/test_agent_limit.py",
    "services/keeper/connection.py": "tests/integration/test_keeper_stopped.py",
    "services/watcher/nvml.py": "tests/integration/test_nvml.py",
    "store/engine/close_watch.py": "tests/integration/test_role_lease.py",
    "store/engine/last_id.py": "tests/contract/test_job.py",
    "store/engine/lock.py": "tests/unit/store/engine/test_sqlite.py",
    "store/engine/postgres.py": "tests/integration/test_postgres.py",
    "store/engine/postgres_bulk.py": "tests/contract/test_job.py",
    "store/engine/postgres_connection.py": "tests/integration/test_postgres.py",
    "store/engine/postgres_dialect.py": "tests/contract/test_migration.py",
    "store/engine/postgres_function.py": "tests/contract/test_view.py",
    "store/engine/postgres_site.py": "tests/integration/test_postgres_intake.py",
    "store/engine/stopped.py": "tests/integration/test_db_copy.py",
    "store/engine/postgres_start.py": "tests/system/test_up_postgres.py",
    "store/engine/role_lease.py": "tests/integration/test_role_lease.py",
    "store/engine/role.py": "tests/unit/store/engine/test_sqlite.py",
    "store/engine/sqlite_bulk.py": "tests/unit/store/engine/test_bulk.py",
    "store/engine/sqlite_connection.py": "tests/unit/store/engine/test_sqlite.py",
    "store/record/update_column.py": "tests/contract/test_job.py",
    "store/schema/rank_view.py": "tests/properties/test_view.py",
    "store/schema/reason_view.py": "tests/contract/test_view.py",
    "store/schema/view.py": "tests/properties/test_view.py",
    "store/schema/whole_view.py": "tests/contract/test_device.py",
}
"""Modules whose rule another test states, since it needs drawn input or the modules around it."""


def modules():
    paths = (path for room in ROOMS for path in (SOURCE / room).rglob("*.py") if path.name != "__init__.py")
    return sorted(path.relative_to(SOURCE).as_posix() for path in paths)


def own_test(module):
    path = Path(module)
    return ROOT / "tests" / "unit" / path.parent / f"test_{path.name}"


@pytest.mark.parametrize("module", modules())
def test_every_module_has_a_test_or_a_reason(module):
    reasons = [module in listed for listed in (DECLARES, WAITS, ELSEWHERE)]
    assert [own_test(module).exists() or module in RUNS_SQL, *reasons].count(True) == 1, (
        f"{module}: write {own_test(module).relative_to(ROOT)}, or list the module here in one way only"
    )


@pytest.mark.parametrize("module", [*DECLARES, *WAITS, *ELSEWHERE])
def test_every_exception_is_a_module(module):
    assert (SOURCE / module).exists()


@pytest.mark.parametrize(("module", "test"), ELSEWHERE.items())
def test_the_other_test_exists(module, test):
    assert (ROOT / test).exists(), f"{module} names {test}"
