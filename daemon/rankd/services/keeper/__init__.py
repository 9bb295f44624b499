"""The keeper: holds a node's jobs while its agent comes and goes, and what it takes to run one."""
