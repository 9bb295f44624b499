"""``sacctmgr -P show assoc tree`` and ``sshare -a -l -P``: the tree by leading blanks, shares, and usage.

The row of a user comes after the row of its account, and repeats the account's name. The row of an account comes after
the row of its parent. Without ``tree``, ``sacctmgr`` prints no blanks; then the column ``ParentName`` is needed.
"""

from __future__ import annotations

import msgspec

from rankd.core.model.association import ROOT, Association
from rankd.core.slurm.limit_line import OF_ACCOUNTS, OF_USERS, limits_in
from rankd.core.slurm.printed_table import PrintedRow, PrintedTable, parse_table
from rankd.core.slurm.reading import Accounting, Entries, Limit, Reading

_SHARES = ("share", "fairshare", "rawshares")
_PARENT = ("parentname", "parname")
_USED = ("cluster", "account", "user", "partition", "share", "priority", *_PARENT)
_IDS = ("id", "lft", "rgt", "parentid", "parid", "lineage", "wckey")
_DERIVED = ("rawshares", "rawusage", "normshares", "normusage", "effectvusage", "effectvusg", "fairshare", "levelfs",
            "tresrunmins")  # fmt: skip


def parse_associations(text: str, reading: Reading, cluster: str = "") -> Accounting:
    """The tree of ``sacctmgr``. ``cluster``: the cluster to read, if the table has several."""
    table = parse_table(text, reading)
    if not _has(table, reading, "`sacctmgr -P show assoc tree`", "account", "user"):
        return Accounting()
    if not any(name in table.titles for name in _SHARES):
        reading.refuse(1, "a table of associations needs the column Share; run `sacctmgr -P show assoc tree`")
        return Accounting()
    rows = _of_cluster(table, cluster, reading)
    entries = _entries(rows, table, reading, usage=False)
    for row in rows:
        kept = (*(OF_USERS if row.get("user") else OF_ACCOUNTS if row.get("account") != ROOT else ()), "qos")
        kept += () if row.get("user") or row.get("account") != ROOT else ("defqos", "defaultqos")
        reading.lost(row.line, _subject(row), table.left(row, (*_USED, *_IDS, "fairshare", *kept)))
    of_users = [limit for row in rows if row.get("user") for limit in _limits(row, OF_USERS, "user")]
    accounts = [row for row in rows if not row.get("user") and row.get("account") != ROOT]
    of_accounts = [limit for row in accounts for limit in _limits(row, OF_ACCOUNTS, "account")]
    defaults = [row.get("defqos", "defaultqos") for row in rows if row.get("account") == ROOT and not row.get("user")]
    found = rows[0].get("cluster") if rows else ""
    accounting = entries.accounting(found, default_qos=(defaults or [""])[0] or None)
    lists = {(row.get("account"), row.get("user") or None): row.get("qos") for row in reversed(rows) if row.get("qos")}
    return msgspec.structs.replace(
        accounting, user_limits=tuple(of_users), account_limits=tuple(of_accounts), qos_lists=lists
    )


def _limits(row: PrintedRow, known: tuple[str, ...], owner: str) -> tuple[Limit, ...]:
    return limits_in(row.cells, known, row.get(owner), row.line)


def parse_shares(text: str, reading: Reading, cluster: str = "") -> Accounting:
    """The tree of ``sshare``, with each user's usage (billed TRES-seconds) at the time when it was printed."""
    table = parse_table(text, reading)
    if not _has(table, reading, "`sshare -a -l -P`", "account", "user", "rawshares", "rawusage"):
        return Accounting()
    rows = _of_cluster(table, cluster, reading)
    accounting = _entries(rows, table, reading, usage=True).accounting()
    for row in rows:
        reading.lost(row.line, _subject(row), table.left(row, (*_USED, *_DERIVED)))
    _check_sums(rows, accounting, reading)
    return accounting


def _has(table: PrintedTable, reading: Reading, command: str, *columns: str) -> bool:
    missing = [name for name in columns if name not in table.titles]
    if missing:
        reading.refuse(1, f"the header has no column '{missing[0]}'; run {command}, with its header")
    return not missing


def _of_cluster(table: PrintedTable, cluster: str, reading: Reading) -> list[PrintedRow]:
    """The rows of one cluster."""
    names = list(dict.fromkeys(row.get("cluster") for row in table.rows))
    if cluster and cluster in names:
        return [row for row in table.rows if row.get("cluster") == cluster]
    if cluster and "cluster" in table.titles:
        reading.refuse(0, f"has no cluster '{cluster}'; it has: {', '.join(names)}")
    elif len(names) > 1:
        reading.refuse(0, f"has several clusters: {', '.join(names)}; choose one with --cluster")
    return table.rows


def _entries(rows: list[PrintedRow], table: PrintedTable, reading: Reading, *, usage: bool) -> Entries:
    """The associations with their parents, from the leading blanks or from the column of parents."""
    entries = Entries(reading)
    named = any(name in table.titles for name in _PARENT)
    above: list[str] = []
    if not named and not any(row.depth for row in rows) and any(row.get("account") != ROOT for row in rows):
        reading.refuse(0, "has no parents of accounts; print it as a tree (`show assoc tree`), or with ParentName")
    for row in rows:
        entry = _entry(row, reading, usage=usage)
        if not entry.account:
            reading.refuse(row.line, "the row has no account")
        elif entry.user is not None:
            if entry.account != ROOT and entry.account not in entries:
                message = f"user '{entry.user}' is listed before the account '{entry.account}'"
                reading.refuse(row.line, message)
            entries.add(entry, row.line, row.get("partition"))
        elif entry.account != ROOT:
            parent = row.get(*_PARENT) if named else _parent(above, row, reading)
            entries.add(msgspec.structs.replace(entry, parent=parent or ROOT), row.line)
        if entry.user is None:
            above[row.depth :] = [entry.account]
    return entries


def _parent(above: list[str], row: PrintedRow, reading: Reading) -> str:
    """The parent of the row's account: the last account with one leading blank less."""
    if row.depth > len(above) or (row.depth == 0 and above):
        message = f"account '{row.get('account')}' has {row.depth} leading blanks, but there is no account above it"
        reading.refuse(row.line, message)
    return above[row.depth - 1] if 0 < row.depth <= len(above) else ROOT


def _entry(row: PrintedRow, reading: Reading, *, usage: bool) -> Association:
    subject = _subject(row)
    used = reading.amount(row.line, f"usage of {subject}", row.get("rawusage"), 0.0) if usage else 0.0
    return Association(
        account=row.get("account"),
        user=row.get("user") or None,
        shares=reading.shares(row.line, subject, row.get("rawshares") if usage else row.get(*_SHARES)),
        priority=0 if usage else reading.whole(row.line, f"priority of {subject}", row.get("priority")),
        usage=used if row.get("user") else 0.0,
    )


def _check_sums(rows: list[PrintedRow], accounting: Accounting, reading: Reading) -> None:
    """Remark on accounts that used more than their listed users: users were deleted, or ``-a`` was not given."""
    parents = {entry.account: entry.parent or ROOT for entry in accounting.associations if entry.user is None}
    known, children = dict[str, float](), dict[str, int]()
    accounts = [row for row in rows if not row.get("user")]
    used = {row.get("account"): reading.amount(row.line, "usage", row.get("rawusage"), 0.0) for row in accounts}
    below = [(parents[account], amount) for account, amount in used.items() if account in parents]
    below += [(entry.account, entry.usage) for entry in accounting.associations if entry.user is not None]
    for account, amount in below:
        known[account] = known.get(account, 0.0) + amount
        children[account] = children.get(account, 0) + 1
    for row in accounts:
        account = row.get("account")
        missing = used[account] - known.get(account, 0.0)
        if missing > 1 + children.get(account, 0):  # all numbers are printed as whole numbers
            message = f"account '{account}': {missing:.0f} of its usage belongs to no listed user and is left out"
            reading.remark(row.line, f"{message} (run sshare with -a)")


def _subject(row: PrintedRow) -> str:
    user, account = row.get("user"), row.get("account")
    return f"user '{user}' in '{account}'" if user else f"account '{account}'"
