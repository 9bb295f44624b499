"""What to do about settings of ``slurm.conf`` that rankd has no equivalent for.

Every setting is in one of three groups: converted (:mod:`.config`), without any effect on who may run what, when or
where (:data:`HARMLESS`), or remarked on. A setting that this module does not know is remarked on as well, so that
nothing is dropped silently. Source: slurm.conf(5) and ``slurm_conf_options`` of Slurm 21.08 to 25.05.
"""

from __future__ import annotations

import re

from rankd.core.slurm.reading import NOT_SET

HARMLESS = re.compile(
    r"accountingstorage(tres|externalhost|host|backuphost|loc|parameters|pass|port|type|user|flags)"
    r"|accountingstore\w+|acctgather\w+|allowspecresourcesusage|auth\w+|backup(addr|controller)|batchstarttimeout"
    r"|bcast\w+|boot_time|cert\w+|communicationparameters|completewait|control(addr|machine)"
    r"|corespecplugin|cpufreq\w+|credtype|cryptotype|dataparserparameters|debugflags|eiotimeout|epilogmsgtime"
    r"|extsensors\w+|fastschedule|firstjobid|getenvtimeout|gpufreqdef|groupupdate\w+|hash\w+|hash_val"
    r"|healthcheck(interval|nodestate)|http\w+|inactivelimit|interactivestepoptions|jobacctgather\w+|jobcomp\w+"
    r"|jobcredential\w+|jobfileappend|keepalivetime|killonbadexit|launch(parameters|type)|logtimeformat"
    r"|mail(domain|prog)|maxbatchrequeue|maxdbdmsgs|max(jobid|nodecount|stepcount|taskspernode)|mcsparameters"
    r"|messagetimeout|metrics\w+|minjobage|mpi(default|params)|next_job_id|plugindir|plugstackconfig|power\w+"
    r"|prep\w+|proctracktype|prologepilogtimeout|prologflags|propagate\w+|rebootprogram|reconfigflags"
    r"|resume(failprogram|rate|timeout)|resvoverrun|returntoservice|routeplugin|sackd\w+|sallocdefaultcommand"
    r"|sbcastparameters|schedulerauth|schedulertimeslice|scronparameters|slurm_(conf|version)|slurmctld\w*|slurmduser"
    r"|slurmd(debug|logfile|parameters|pidfile|port|spooldir|syslogdebug)|slurmsched\w+|slurmuser|srunportrange"
    r"|statesavelocation|suspend(excnodes|excparts|excstates|rate|time|timeout)|switch(parameters|type)"
    r"|task(plugin|pluginparam)|tcptimeout|tls\w+|tmpfs|topologyparam|trackwckey|treewidth|unkillablestep\w+|urlparser\w+"
    r"|usepam|vsizefactor|waittime|x11parameters"
    r"|allowed\w+space|cgroup\w+|constrain(devices|kmemspace|swapspace)|enable\w*controllers|ignoresystemd\w*"
    r"|max\w+percent|memoryswappiness|min(kmem|ram)space|systemdtimeout|signalchildrenprocesses"
)
"""Settings without an effect on who may run what, when or where; those of ``cgroup.conf`` in the last two lines."""

_SCRIPTS = "rankd runs no such script; let the jobs or the machine's own service do what it does"
_MEMORY = "a job that names no memory has no memory limit, and no memory is counted for it; tell users to give --mem"
_MOST_MEMORY = "jobs may ask for all memory that a node offers; offer less with `rankd agent --resources memory=…`"
_PREEMPTION = "rankd ends no job to make room for another; a queue's priority.offset decides which waiting job is next"
_POWER = "rankd switches no nodes on or off; a node without an agent gets no jobs"
_WHOLE_NODES = "jobs share nodes; tell users to give --exclusive where they need whole nodes"

ADVICE = {
    "burstbuffertype": "rankd has no burst buffers; jobs have to copy their data themselves",
    "burstbufferparameters": "rankd has no burst buffers",
    "clifilterplugins": "rankd runs no such plugins; put the rules into access lists, limits and default settings",
    "constraincores": "agents limit jobs to their cores; start them with --no-limits where they should not",
    "constrainramspace": "agents limit jobs to their memory; start them with --no-limits where they should not",
    "defcpupergpu": "a job gets the cores that it asks for, one by default; tell users to give -c or --cpus-per-gpu",
    "defmempercpu": _MEMORY,
    "defmempergpu": _MEMORY,
    "defmempernode": _MEMORY,
    "downnodes": "drain these nodes once their agents have joined: rankd node drain --admin NODE --reason …",
    "enforcepartlimits": "set admission.refuse_unfit = true to refuse jobs that no node could ever hold",
    "epilog": "not converted; name the program as [node] epilog in rankd.toml, and read its variables first",
    "epilogslurmctld": _SCRIPTS,
    "federationparameters": "each rankd decides by itself",
    "frontendname": "rankd has no front-end nodes",
    "healthcheckprogram": "not converted; name the program as [node] health_check; its exit status decides",
    "jobcontainertype": "jobs share the machine's /tmp; use PAM or systemd for private ones",
    "jobsubmitplugins": "rankd runs no such plugins: jobs that they refused or changed are accepted as they are; "
    "put the rules into access lists (submitacl, [[qos]] users) and limits",
    "licenses": "rankd counts no licences; jobs that ask for them (-L) are refused",
    "maxmempercpu": _MOST_MEMORY,
    "maxmempernode": _MOST_MEMORY,
    "mcsplugin": "jobs of all users share nodes; tell users to give --exclusive",
    "nodefeaturesplugins": "rankd changes no nodes for a job; give their agents --labels",
    "nodeset": "rankd has no sets of nodes; write the nodes into Nodes= of the partitions, and import again",
    "overtimelimit": "jobs are ended at their time limit",
    "preemptexempttime": _PREEMPTION,
    "preemptmode": _PREEMPTION,
    "preemptparameters": _PREEMPTION,
    "preempttype": _PREEMPTION,
    "priorityparameters": "write a factor of your own instead (docs/how-to/plugins.md)",
    "prioritysitefactorplugin": "write a factor of your own instead (docs/how-to/plugins.md)",
    "prioritysitefactorparameters": "write a factor of your own instead (docs/how-to/plugins.md)",
    "priorityusageresetperiod": "usage fades by its half-life only",
    "prolog": "not converted; name the program as [node] prolog in rankd.toml, and read its variables first",
    "prologslurmctld": _SCRIPTS,
    "requeueexit": "rankd does not queue a job again because of its exit status; use `rankd retry`",
    "requeueexithold": "rankd does not queue a job again because of its exit status; use `rankd retry --hold`",
    "resumeprogram": _POWER,
    "resvepilog": _SCRIPTS,
    "resvprolog": _SCRIPTS,
    "schedulerparameters": "rankd's backfill has settings of its own: scheduling.backfill, scheduling.reserve_depth",
    "schedulertype": "rankd reserves room for the first waiting job and fills gaps before it (scheduling.backfill)",
    "selecttype": _WHOLE_NODES,
    "selecttypeparameters": "rankd gives jobs single cores, and counts memory for jobs that ask for it",
    "srunepilog": _SCRIPTS,
    "srunprolog": _SCRIPTS,
    "suspendprogram": _POWER,
    "taskepilog": _SCRIPTS,
    "taskprolog": _SCRIPTS,
    "topologyplugin": "rankd does not know the network's switches; give agents --labels, and let jobs ask with -C",
}
"""What to do instead, by key in lower case."""

_USUAL = {
    "constraincores": {"yes", "y", "true", "1"},
    "constrainramspace": {"yes", "y", "true", "1"},
    "defcpupergpu": {"0"},
    "defmempercpu": {"0", "unlimited"},
    "defmempergpu": {"0", "unlimited"},
    "defmempernode": {"0", "unlimited"},
    "enforcepartlimits": {"no", "n", "false", "0"},
    "healthcheckprogram": {"0"},
    "jobcontainertype": {"job_container/none"},
    "maxmempercpu": {"0", "unlimited"},
    "maxmempernode": {"0", "unlimited"},
    "mcsplugin": {"mcs/none"},
    "overtimelimit": {"0", "0 min"},
    "preemptexempttime": {"00:00:00", "0", "-1"},
    "preemptmode": {"off"},
    "preempttype": {"preempt/none"},
    "schedulertype": {"sched/backfill"},
    "selecttype": {"select/cons_tres", "select/cons_res"},
    "topologyplugin": {"topology/none", "topology/default", "topology/flat"},
}
"""Values that mean the same as rankd's own behaviour."""
_SELECTED = {"cr_core_memory", "cr_cpu_memory", "cr_core", "cr_cpu", "cr_core_default_dist_block", "cr_lln"}
"""Words of ``SelectTypeParameters`` with which Slurm gives jobs single cores."""


def is_usual(key: str, value: str) -> bool:
    """Whether the value means the same as rankd's own behaviour. ``key``: in lower case.

    >>> is_usual("preemptmode", "OFF"), is_usual("preemptmode", "REQUEUE"), is_usual("schedulerparameters", "(null)")
    (True, False, True)
    """
    text = value.strip().lower()
    if text in NOT_SET or text in _USUAL.get(key, ()):
        return True
    return key == "selecttypeparameters" and {word.strip() for word in text.split(",")} <= _SELECTED


def advice_on(key: str) -> str:
    """What an administrator should do about a setting that is not converted. ``key``: in lower case."""
    return ADVICE.get(key, "the import does not know this setting; check whether it changes who may run what")
