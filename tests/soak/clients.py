"""Clients of a soak: each uses the whole API until it is stopped, and records every acknowledged request."""

import threading

from tests.soak.data_acts import DataActs
from tests.soak.job_acts import JobActs
from tests.soak.ledger import Ledger
from tests.soak.model_acts import ModelActs
from tests.support.receiver import Receiver


class Client(DataActs, JobActs, ModelActs):
    """Works in its own thread. When it is stopped, it still waits for the answer to its current request."""

    def __init__(
        self, url: str, ledger: Ledger, seed: str, number: int, stopping: threading.Event, receiver: Receiver
    ) -> None:
        super().__init__(url, ledger, seed, number)
        self.receiver = receiver
        self._stopping = stopping
        self._thread = threading.Thread(target=self._work, name=f"client {seed}")
        self._thread.start()

    def _work(self) -> None:
        acts = {
            **{self.submit: 10, self.look: 8, self.predict: 6, self.change: 4, self.batch: 4, self.judge: 1},
            **{self.upload: 3, self.upload_in_parts: 2, self.delete_dataset: 2, self.read: 3},
            **{self.import_model: 4, self.purge_model: 2, self.move_alias: 4, self.replace_webhook: 0.3},
            **{self.read_output: 2, self.delete_output: 0.5},
        }
        try:
            self.upload()
            self.replace_webhook()
            while not self._stopping.is_set():
                (act,) = self.random.choices(list(acts), weights=list(acts.values()))
                act()
                self._stopping.wait(self.random.uniform(0.0, 0.1))
        except Exception as error:  # otherwise its end would go unnoticed
            self.ledger.blame(f"client {self.number} ended: {error!r}")
            raise
        finally:
            self.close()

    def give_up(self) -> None:
        self._give_up.set()
        self._thread.join()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
