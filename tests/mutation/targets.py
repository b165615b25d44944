"""What can be mutated, and which tests have to notice. A new target is one more entry of TARGETS."""

from typing import NamedTuple


class Part(NamedTuple):
    """A file of a target."""

    path: str
    tests: tuple[str, ...]
    """What pytest is given: files, folders or node ids, quick ones first."""
    names: tuple[str, ...] | None = None
    """Only these functions and classes of the file; None: all of it."""


CERTIFICATES = (
    "tests/unit/solvers/certificates",
    "tests/unit/solvers/problem/losses",
    "tests/unit/solvers/linalg/test_rounding.py",
    "tests/unit/solvers/linalg/test_compensated.py",
    "tests/unit/solvers/engine/test_status.py",
    "tests/unit/solvers/engine/test_judge.py",
    "tests/property/test_exact_certificates.py::test_a_balanced_point_has_a_sum_of_exactly_zero",
    "tests/property/test_exact_certificates.py::test_no_made_up_point_of_a_hostile_problem_has_a_false_certificate",
)
ENGINE = (
    "tests/unit/solvers/engine/test_status.py",
    "tests/unit/solvers/engine/test_judge.py",
)
SCORES = (
    "tests/unit/app/predictions/test_score_bound_terms.py",
    "tests/unit/app/predictions/test_score_rounding.py::test_the_optimum_farthest_away_is_within_the_bound",
    "tests/unit/app/predictions/test_score_rounding.py::test_a_label_that_rounding_could_have_changed_is_not_certain",
)

GATE = (
    "tests/unit/app/keys/test_gate.py",
    "tests/unit/app/keys/test_key_trust.py",
    "tests/unit/app/keys/test_stopping_requests.py",
)
KEYS = ("tests/unit/app/keys/test_key_trust.py", "tests/unit/app/keys/test_key_cache.py", *GATE[:1])
SESSIONS = ("tests/contract/test_sessions.py",)
COMMANDS = ("tests/unit/app/keys/test_key_commands.py",)
IDS = ("tests/unit/app/test_config_ids_names.py", *KEYS)

QUEUE = (
    "tests/unit/app/jobs/test_job_states.py",
    "tests/contract/test_queue.py",
    "tests/contract/test_queue_room.py",
    "tests/contract/test_job_control.py",
    "tests/contract/test_repositories_jobs.py",
)
EXECUTOR = ("tests/unit/app/worker/test_executor.py",)
SUPERVISOR = (
    "tests/unit/app/worker/test_supervisor_claims.py",
    "tests/unit/app/worker/test_supervisor_loop.py",
    "tests/unit/app/worker/test_supervisor.py",
)
SLOTS = ("tests/unit/app/worker/test_slots.py",)

STORE = ("tests/unit/app/storage/test_commit_order.py", "tests/unit/app/storage/test_blobs.py")
IDENTITY = ("tests/unit/app/storage/test_store_id.py", "tests/unit/app/storage/test_identity.py")
OWNERSHIP = ("tests/unit/app/storage/test_ownership.py", "tests/contract/test_repositories_blob_owners.py")
UPLOADS = (
    "tests/unit/app/datasets/uploads/test_upload_steps.py",
    "tests/contract/test_repositories_uploads.py",
    "tests/unit/app/datasets/uploads/test_upload_requests.py",
)

ON_SERVICE = frozenset({"auth", "job_state", "storage_commit"})
"""Targets whose tests run with compiled kernels, conftest.py and SQLite; the others run without these."""

TARGETS: dict[str, tuple[Part, ...]] = {
    "certificates": (
        Part("solvers/linalg/rounding.py", CERTIFICATES),
        Part("solvers/certificates/evaluation.py", CERTIFICATES),
        Part("solvers/certificates/balance.py", CERTIFICATES),
        Part("solvers/certificates/binary.py", CERTIFICATES),
        Part("solvers/certificates/regression.py", CERTIFICATES),
        Part("solvers/certificates/multiclass.py", CERTIFICATES),
        Part("solvers/certificates/multinomial.py", CERTIFICATES),
        Part("solvers/certificates/ordinal.py", CERTIFICATES),
        Part("solvers/problem/losses/loss.py", CERTIFICATES),
        Part("solvers/problem/losses/hinge.py", CERTIFICATES),
        Part("solvers/problem/losses/epsilon_insensitive.py", CERTIFICATES),
        Part("solvers/problem/losses/logistic.py", CERTIFICATES),
        Part("solvers/certificates/circulation.py", CERTIFICATES),
        Part("solvers/linalg/compensated.py", CERTIFICATES),
        Part("solvers/result.py", CERTIFICATES, ("Certificate",)),
        Part("solvers/engine/judge.py", ENGINE),
        Part("solvers/engine/driver.py", ENGINE, ("agreeing_status",)),
        Part("solvers/engine/one_vs_rest.py", ENGINE, ("sum_of_classes", "_rounded_sum", "_better", "_Run._status")),
        Part("app/predictions/score_error.py", SCORES),
        Part("app/worker/claimed_certificate.py", ("tests/unit/app/worker/test_claimed_certificate.py",)),
    ),
    "auth": (
        Part("app/keys/guard.py", (*GATE, *SESSIONS)),
        Part("app/keys/key_cache.py", KEYS),
        Part("app/keys/repository.py", KEYS),
        Part("app/keys/service.py", KEYS),
        Part("app/keys/session_store.py", SESSIONS),
        Part("app/keys/session_endpoints.py", SESSIONS),
        Part("app/cli.py", COMMANDS, ("create_key", "list_keys", "revoke_key")),
        Part("app/runtime/launcher.py", COMMANDS, ("launch", "bound_sockets", "_prepare_database")),
        Part("app/config.py", IDS, ("Settings.bound_to_loopback",)),
        Part("app/ids.py", IDS),
        Part("app/web/browser.py", ("tests/unit/app/web/test_head_requests.py",), ("HeadRequests",)),
    ),
    "job_state": (
        Part("app/db/job_state.py", (*SLOTS, *QUEUE)),
        Part("app/jobs/lease.py", QUEUE),
        Part("app/jobs/queue.py", QUEUE),
        Part("app/jobs/control.py", QUEUE),
        Part("app/jobs/repository.py", QUEUE),
        Part("app/worker/executor.py", EXECUTOR),
        Part("app/worker/failures.py", EXECUTOR),
        Part("app/worker/patience.py", EXECUTOR),
        Part("app/worker/slot.py", SLOTS),
        Part("app/worker/supervisor.py", SUPERVISOR),
        Part("app/worker/child.py", SLOTS, ("_run", "_allowance")),
    ),
    "storage_commit": (
        Part("app/storage/blobs.py", STORE),
        Part("app/storage/free_space.py", STORE),
        Part("app/storage/identity.py", IDENTITY),
        Part("app/storage/ownership.py", OWNERSHIP),
        Part("app/datasets/uploads/part_files.py", UPLOADS),
        Part("app/datasets/uploads/repository.py", UPLOADS),
        Part("app/datasets/uploads/service.py", UPLOADS),
        Part("app/datasets/uploads/endpoints.py", UPLOADS),
    ),
}
