"""Operating system: memory and priorities, forked processes, stop signals, a flag that processes share."""
