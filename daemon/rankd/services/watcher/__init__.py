"""The watcher: a process beside a node's agent that finds the node's GPUs, and looks at them every few seconds."""
