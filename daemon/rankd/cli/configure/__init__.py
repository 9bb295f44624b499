"""Commands under "Configure": priority classes, checks and history of the configuration, imports."""
