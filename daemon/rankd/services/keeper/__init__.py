"""The keeper: holds a node's jobs while its agent stops and starts, and the modules that run one job."""
