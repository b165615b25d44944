"""The asynchronous client. `hyperplane/_sync` is written from this folder by `make sync-client`."""
