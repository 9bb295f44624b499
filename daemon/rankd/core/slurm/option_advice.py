"""What to do about options of ``sacctmgr`` that rankd has no equivalent for, by their names in lower case."""

from __future__ import annotations

_MINUTES = "rankd has no budgets of minutes; shares and prices let heavy users wait"
_LONGEST = "jobs may ask for any time limit; tell users, and look for longer ones with `rankd queue -l`"
_SUBMIT = "admission.max_pending_per_user and max_pending_per_account limit waiting jobs, alike for all"
_ONE_JOB = "a limit of rankd's counts all running jobs of a queue, user or group together; write one into queues.yaml"
_PER_ACCOUNT = "write a limit for a group with the account's users into queues.yaml"
_PREEMPTION = "rankd ends no job to make room for another"
_AGE = "all waiting jobs gain age"
_JOBS = "write maxapplications into a limit in queues.yaml"

_ADVICE = {
    ("maxwall", "maxwalldurationperjob", "maxwallperjob"): _LONGEST,
    ("grpwall", "grptresmins", "grptresrunmins", "grpcpumins", "grpcpurunmins", "maxtresmins", "maxtresminsperjob",
     "maxcpumins", "maxtresrunminsperuser", "maxtresrunminsperaccount", "maxtresrunminspu",
     "maxtresrunminspa"): _MINUTES,
    ("grpsubmit", "grpsubmitjobs", "maxsubmit", "maxsubmitjobs", "maxsubmitpu", "maxsubmitpa", "maxsubmitjobsperuser",
     "maxsubmitjobsperaccount", "maxsubmitjobspu", "maxsubmitjobspa"): _SUBMIT,
    ("maxtres", "maxtresperjob", "maxtrespj", "maxtrespernode", "maxtrespn", "mintres", "mintresperjob"): _ONE_JOB,
    ("maxtrespa", "maxtresperaccount", "maxjobspa", "maxjobsperaccount"): _PER_ACCOUNT,
    ("preempt", "preemptmode", "preemptexempttime", "gracetime"): _PREEMPTION,
    ("grpjobsaccrue", "maxjobsaccrue", "maxjobsaccrueperuser", "maxjobsaccrueperaccount", "minpriothresh",
     "minpriothreshold"): _AGE,
    ("grpjobs", "maxjobs", "maxjobspu", "maxjobsperuser"): _JOBS,
    ("grptres",): "write resources.max of a queue, or a limit for users or a group, into queues.yaml",
    ("maxtrespu", "maxtresperuser"): "write a limit for the user '*' into queues.yaml",
    ("flags",): "a QoS of rankd's has no flags; a job above a limit waits, and is refused if it could never fit",
    ("usagethres", "usagethreshold"): "rankd holds no job because of usage; fair share lowers its priority",
    ("limitfactor",): "rankd multiplies no limits",
    ("qos",): "[[qos]] users lists who may use a QoS",
    ("defaultqos", "defqos"): "there is one default for all (default_qos); tell these users to give --qos",
    ("coordinator", "coordinators"): "adminacl of a queue lets users administer its jobs",
    ("defaultwckey", "wckey", "wckeys"): "rankd has no wckeys",
}  # fmt: skip
_BY_NAME = {name: advice for names, advice in _ADVICE.items() for name in names}


def advice_on_options(names: list[str]) -> str:
    """The advice on these options, each text once; empty if there is none.

    >>> advice_on_options(["DefaultWCKey", "Description"])
    'rankd has no wckeys'
    """
    found = (_BY_NAME.get(name.lower().replace(" ", ""), "") for name in names)
    return "; ".join(dict.fromkeys(text for text in found if text))
