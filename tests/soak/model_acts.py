"""What the clients of a soak do with models: import, predict, purge, delete and restore; and with their aliases."""

import json

from tests.soak.ledger import AliasChange, Imported, Json
from tests.soak.talking import PASSING, Talker, code_of

FEATURES = 4
TWINS = 6
"""Different models that are imported: equal ones share a file, which the purge of one must not take from another."""
LEAST_MODELS = 2
"""Models of its own that a client leaves in place."""


class ModelActs(Talker):
    """A client imports under a name of its own, which no other client changes: it knows what must be there."""

    @property
    def name(self) -> str:
        return f"i{self.number}"

    @property
    def alias(self) -> str:
        return f"a{self.number}"

    def import_model(self) -> None:
        coef = [float(self.random.randrange(TWINS)), 1.0, -0.5, 0.25]
        body = json.dumps({"task": "binary", "classes": ["-1", "1"], "coef": coef, "intercept": 0.1})
        sent = {"Content-Type": "application/json"}
        key = self.key()
        answer = self.insist("POST", f"/v1/models/import?name={self.name}", key, content=body, headers=sent)
        if answer is not None and answer.status_code == 201:
            shown = answer.json()
            self.ledger.acknowledge_import(key, Imported(shown["id"], self.name, shown["version"], coef))
            self.ledger.count("imported")
        elif answer is not None:
            self.ledger.blame(f"import: {answer.status_code} {answer.text[:300]}")

    def predict(self) -> None:
        """Predict by a trained name, or by an alias of this client, which must answer as long as it is set."""
        rows = [[self.random.gauss(0, 1) for _ in range(FEATURES)]]
        current = self.ledger.alias_now(self.name, self.alias)
        is_set = current is not None and current.targets is not None
        own = is_set and self.chance(0.5)
        reference = f"{self.name}@{self.alias}" if own else f"m{self.random.randrange(5)}"
        answer = self.attempt("POST", f"/v1/models/{reference}/predict", json={"instances": rows})
        if answer is not None and answer.status_code == 200:
            self.ledger.count("predictions")
        elif own and answer is not None and answer.status_code not in PASSING:
            self.ledger.blame(f"{reference} is {current}, and predict answers {answer.status_code} {answer.text[:200]}")

    def purge_model(self) -> None:
        """Purge a model of this client, or delete and restore it."""
        own = [one for one in self._own_models() if one.version not in self._used_versions()]
        if len(own) <= LEAST_MODELS:
            return
        model = self.random.choice(own)
        if self.chance(0.3):
            self._delete_and_restore(model)
            return
        self.ledger.purge_asked.add(model.id)
        answer = self.insist("DELETE", f"/v1/models/{model.id}?purge=true")
        if answer is None:
            return
        if answer.status_code != 204:
            self.ledger.blame(f"purge of {model.id}: {answer.status_code} {answer.text[:300]}")
            return
        self.ledger.purged.add(model.id)
        self.ledger.count("purged")

    def move_alias(self) -> None:
        """Set it, roll it back or delete it: each is one revision, however often it had to be sent."""
        versions = [one.version for one in self._own_models()]
        if len(versions) < LEAST_MODELS:
            return
        before = self.ledger.alias_now(self.name, self.alias)
        path = f"/v1/models/{self.name}/aliases/{self.alias}"
        kind = self.random.choices(["put", "delete", "rollback"], weights=[6, 1, 2])[0]
        revision = 0 if before is None else before.revision
        if kind == "delete" and before is not None and before.targets is not None:
            answer = self.insist("DELETE", path)
            if answer is not None:
                if answer.status_code not in (204, 404):
                    self.ledger.blame(f"DELETE {path}: {answer.status_code} {answer.text[:300]}")
                self.ledger.change_alias(AliasChange(self.name, self.alias, revision + 1, None))
        elif kind == "rollback" and before is not None:
            answer = self.insist("POST", f"{path}/rollback", self.key(), json={})
            if answer is not None and answer.status_code == 200:
                self._check_alias(answer.json(), revision + 1)
            elif answer is not None and code_of(answer) not in ("nothing_to_roll_back_to", "version_deleted"):
                self.ledger.blame(f"POST {path}/rollback: {answer.status_code} {answer.text[:300]}")
        elif kind == "put":
            chosen = self.random.sample(sorted(set(versions)), 2)
            wanted: Json = {"targets": [{"version": version, "weight": 1} for version in chosen]}
            if self.chance(0.5):
                wanted = {"version": chosen[0], "shadow": chosen[1]}
            answer = self.insist("PUT", path, json=wanted)
            if answer is not None and answer.is_success:
                targets = tuple((one["version"], one["weight"]) for one in answer.json()["targets"])
                shadow = wanted.get("shadow")
                is_same = before is not None and (before.targets, before.shadow) == (targets, shadow)
                self._check_alias(answer.json(), revision + (not is_same))
                if [version for version, _ in targets] != (chosen if "targets" in wanted else chosen[:1]):
                    self.ledger.blame(f"PUT {path} {wanted}: answered {answer.text[:300]}")
            elif answer is not None:
                self.ledger.blame(f"PUT {path}: {answer.status_code} {answer.text[:300]}")

    def _check_alias(self, shown: Json, revision: int) -> None:
        targets = tuple((one["version"], one["weight"]) for one in shown["targets"])
        if shown["revision"] != revision:
            self.ledger.blame(f"{self.name}@{self.alias}: revision {shown['revision']}, expected {revision}")
        self.ledger.change_alias(AliasChange(self.name, self.alias, shown["revision"], targets, shown["shadow"]))
        self.ledger.count("alias changes")

    def _delete_and_restore(self, model: Imported) -> None:
        self.ledger.hide_asked.add(model.id)
        deleted = self.insist("DELETE", f"/v1/models/{model.id}")
        restored = None if deleted is None else self.insist("POST", f"/v1/models/{model.id}/restore", self.key())
        if restored is not None and restored.status_code != 200:
            self.ledger.blame(f"restore of {model.id}: {restored.status_code} {restored.text[:300]}")
        self.ledger.count("deleted and restored")

    def _own_models(self) -> list[Imported]:
        imported = [one for one in list(self.ledger.imports.values()) if one.name == self.name]
        return [one for one in imported if one.id not in self.ledger.purge_asked]

    def _used_versions(self) -> set[int]:
        now = self.ledger.alias_now(self.name, self.alias)
        if now is None or now.targets is None:
            return set()
        return {*(version for version, _ in now.targets), *(() if now.shadow is None else (now.shadow,))}
