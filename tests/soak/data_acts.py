"""What the clients of a soak do with datasets: upload, in one piece and in parts, send again, read, delete."""

import hashlib

from tests.soak.ledger import SentFile
from tests.soak.talking import PASSING, Talker, code_of

CSV = {"Content-Type": "text/csv"}
ROWS = (100, 400, 3000)
KEPT_DATASETS = 6
"""Datasets that no client deletes, so that there is always something to train on."""


class DataActs(Talker):
    def upload(self) -> None:
        """A whole file at once; sometimes one that was sent before, sometimes without waiting for its reader."""
        headers = {**CSV, "Prefer": "respond-async"} if self.chance(0.3) else CSV
        file = self._file()
        answer = self.insist("POST", "/v1/datasets", self.key(), content=file.content(), headers=headers)
        if answer is not None and answer.is_success:
            self.ledger.acknowledge_dataset(answer.json()["id"], file)
            self.ledger.count("uploaded")

    def upload_in_parts(self) -> None:
        """Upload a file in two to five parts. After a failure, continue at the offset that the service reports."""
        file = self._file()
        content = file.content()
        headers = {**CSV, "Upload-Length": str(len(content))} if self.chance(0.5) else CSV
        begun = self.insist("POST", "/v1/uploads", self.key(), headers=headers)
        if begun is None or begun.status_code != 201:
            return
        path, offset, acknowledged = f"/v1/uploads/{begun.json()['id']}", 0, 0
        part_bytes = len(content) // self.random.randrange(1, 5) + 1
        abandoned_at = part_bytes if self.chance(0.1) else len(content) + 1
        while not self._give_up.is_set():
            if offset >= abandoned_at:
                self.insist("DELETE", path)
                self.ledger.count("abandoned uploads")
                return
            part = content[offset : offset + part_bytes]
            is_last = offset + len(part) == len(content)
            sent = {"Content-Type": "application/octet-stream", "Upload-Offset": str(offset)}
            answer = self.attempt(
                "PATCH", path, content=part, headers={**sent, "Upload-Complete": "?1" if is_last else "?0"}
            )
            if answer is not None and answer.status_code in (200, 201):
                self.ledger.acknowledge_dataset(answer.json()["id"], file)
                self.ledger.count("uploaded in parts")
                return
            if answer is not None and answer.status_code == 204:
                offset = acknowledged = int(answer.headers["Upload-Offset"])
                continue
            if answer is not None and answer.status_code not in PASSING and answer.status_code != 409:
                self.ledger.blame(f"PATCH {path}: {answer.status_code} {answer.text[:300]}")
                return
            at = self.insist("GET", path)
            if at is None:
                return
            if at.status_code != 200:
                self.ledger.blame(f"{path}: acknowledged, and now {at.status_code}")
                return
            if dataset_id := at.json()["dataset_id"]:
                self.ledger.acknowledge_dataset(dataset_id, file)
                self.ledger.count("uploaded in parts")
                return
            offset = at.json()["offset"]
            if offset < acknowledged:
                if offset != 0 or not self.ledger.counts["fault fail_disk"]:
                    self.ledger.blame(f"{path}: {acknowledged} bytes were acknowledged, {offset} are left")
                self.ledger.count("uploads begun again")
                acknowledged = offset
            self._give_up.wait(0.1)

    def delete_dataset(self) -> None:
        datasets = [one for one in self.ledger.known_datasets() if one not in self.ledger.delete_asked]
        if len(datasets) <= KEPT_DATASETS:
            return
        dataset_id = self.random.choice(datasets)
        self.ledger.delete_asked.add(dataset_id)
        answer = self.insist("DELETE", f"/v1/datasets/{dataset_id}")
        if answer is not None and answer.status_code in (200, 404):
            self.ledger.deleted.add(dataset_id)
            self.ledger.count("deleted datasets")
        elif answer is not None and code_of(answer) == "dataset_in_use":
            self.ledger.delete_asked.discard(dataset_id)  # refused: it stays

    def read(self) -> None:
        """Look at something that costs the service a file, a reader or a page of rows."""
        pages = ("/v1/jobs", "/v1/models", "/v1/datasets", "/v1/webhooks", "/readyz")
        if self.chance(0.4) or not (datasets := self.ledger.known_datasets()):
            self.attempt("GET", self.random.choice(pages))
            return
        dataset_id = self.random.choice(datasets)
        what = self.random.choice(("content", "statistics", "issues", "preview", "columns"))
        answer = self.attempt("GET", f"/v1/datasets/{dataset_id}/{what}")
        if answer is None:
            return
        if answer.status_code == 404 and dataset_id not in self.ledger.delete_asked:
            self.ledger.blame(f"{answer.url.path}: acknowledged, and now 404")
        if what == "content" and answer.status_code == 200:
            self.ledger.count("files read back")
            if hashlib.sha256(answer.content).hexdigest() != self.ledger.datasets[dataset_id].sha256:
                self.ledger.blame(f"{answer.url.path}: not the bytes that were sent")

    def _file(self) -> SentFile:
        """A new file, or, one time in six, one that was sent before and may have been deleted since."""
        if self.chance(1 / 6) and (known := list(self.ledger.datasets.values())):
            return self.random.choice(known)
        return SentFile.made(self.random.choice(ROWS), self.random.randrange(10**9))
