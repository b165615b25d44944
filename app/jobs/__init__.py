"""Jobs: the requests of clients, their queue, their progress and their results."""
