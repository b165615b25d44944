"""What the operating system gives: memory and priorities, forked processes, a byte that processes share."""
