"""What starts where: snapshot + nodes + now -> allocations and, for every other job, the reason it waits."""
