"""Access to the operating system: memory, priorities, forked processes, stop signals, and a flag that processes
share."""
