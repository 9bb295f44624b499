"""What a test does with a store: write and read by the verbs, look, and see rows of views and tables."""

from builder import NOW, accepted, configuration
from sqlalchemy import column, literal_column, select, table

from rankd.core.admission.submitter import Submitter
from rankd.store.record.catalog import sync_catalog
from rankd.store.record.delivery import Ask, give
from rankd.store.record.job import NewJob, insert_jobs
from rankd.store.record.node import register_node
from rankd.store.record.report import take_reports
from rankd.wire.message import NodeRegistration, Report

ROOT = Submitter("root", privileged=True)
ALICE = Submitter("alice", privileged=False)


class Store:
    """A database, and short names for what most tests do first."""

    def __init__(self, database):
        self.database = database
        self.catalog = None

    async def write(self, verb, *arguments, **named):
        """One transaction of one verb."""
        return await self.database.write(lambda connection: verb(connection, *arguments, **named))

    async def read(self, verb, *arguments, **named):
        """A verb that only reads."""
        return await self.database.read(lambda connection: verb(connection, *arguments, **named))

    async def look(self, query, *arguments, **named):
        """A question of people: it gets the driver's connection, as services give it."""
        return await self.database.look(lambda connection: query(connection.connection, *arguments, **named))

    async def ask(self, query, *arguments, **named):
        """A reading that takes the function that runs statements."""
        return await self.database.look(lambda connection: query(connection.exec_driver_sql, *arguments, **named))

    async def rows(self, name, /, **wanted):
        """Rows of a view or a table as dictionaries, in which these columns have these values."""
        query = select(literal_column("*")).select_from(table(name))
        for key, value in wanted.items():
            query = query.where(column(key) == value)
        return await self.database.look(lambda connection: [dict(r) for r in connection.execute(query).mappings()])

    async def configure(self, given=None, now=NOW):
        """Bring in a configuration: by default root.default for alice and bob in physics."""
        self.catalog = await self.write(sync_catalog, given or configuration(), now)
        return self.catalog

    async def submit(self, *users, at=NOW, **fields):
        """A pending, eligible job of each user; their ids."""
        if self.catalog is None:
            await self.configure()
        new = [NewJob(accepted=accepted(user, **fields), actor=user, at=at) for user in users]
        return await self.write(insert_jobs, new, self.catalog)

    async def add_nodes(self, *names, at=NOW, **fields):
        """Nodes with four cores each, whose agents have their names."""
        for name in names:
            wanted = NodeRegistration(**{"resources": {"vcore": 4}, "agent": name, **fields})
            await self.write(register_node, name, wanted, at)

    async def take(self, *nodes, at=NOW):
        """What the agents of these nodes get when they ask for work."""
        asks = [Ask(node=node, agent=node, known=None) for node in nodes]
        return [given.answer for given in await self.write(give, asks, 3, at)]

    async def report(self, node, allocation, job, kind, at=NOW, **fields):
        """A report of a node."""
        report = Report(allocation=allocation, job=job, kind=kind, at=at, **fields)
        await self.write(take_reports, [(node, report)], 3, at)
