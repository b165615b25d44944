"""What schemathesis reports and is meant to be so: one entry for an operation, a check and a code.

Anything else fails the run. An entry that no case needs is printed at the end: remove it.
"""

ALIAS = "/v1/models/{name}/aliases/{alias}"
REREAD = "/v1/datasets/{dataset_id}/reread"
SNAPSHOT = "/v1/jobs/{job_id}/predict"

CURSOR = "a cursor is a text that the service gave out"
KEY = "the same Idempotency-Key for two different requests"
LONG_URL = "an array in the query makes a URL of over 64 KiB"
FILE = "the bytes of a file are `format: binary` in the schema"
ROWS = "the rows do not fit the model: it has four features, x0 to x3"
NO_ROWS = "a text without rows: a schema does not look into CSV or libsvm"
LINES = "a text that is not of the format: a schema does not look into CSV or libsvm"
HOST = "the schema asks for http or https; which hosts are valid is known to the service"
NO_TENSOR_ROWS = "the rows are the first dimension of a tensor"
OUTPUT = "the model has no such output: it is binary and not calibrated"
ABSENT = "names a thing that does not exist"
TOGETHER = "the schema lists each field; which of them fit each other is said by the message"
CHANGED = "If-Match or If-None-Match does not hold"
DECIMAL_POINT = "1.0 is an integer in JSON Schema; here it is written without a decimal point"
TOO_LARGE = "over HYPERPLANE_MAX_UPLOAD_BYTES"

REFUSED: dict[str, dict[str, str]] = {
    **{
        f"GET {path}": {"invalid_cursor": CURSOR}
        for path in (
            "/v1/datasets",
            "/v1/datasets/{dataset_id}/columns",
            "/v1/datasets/{dataset_id}/statistics",
            "/v1/jobs",
            "/v1/jobs/{job_id}/events",
            "/v1/models",
            "/v1/models/{name}/aliases",
            f"{ALIAS}/history",
            "/v1/models/{ref}/evaluations",
            "/v1/webhooks",
            "/v1/webhooks/{webhook_id}/deliveries",
        )
    },
    **{
        f"POST {path}": {"idempotency_key_reused": KEY}
        for path in (
            "/v1/jobs/{job_id}/cancel",
            "/v1/jobs/{job_id}/finish",
            "/v1/jobs/{job_id}/pause",
            "/v1/jobs/{job_id}/resume",
            "/v1/webhooks/{webhook_id}/test",
        )
    },
    "GET /v1/models/{ref}/export": {"unexpected": "only sql has `output`"},
    "PATCH /v1/uploads/{upload_id}": {"empty_body": FILE, "payload_too_large": TOO_LARGE},
    "POST /v1/datasets": {
        "empty_body": FILE,
        "idempotency_key_reused": KEY,
        "unsupported_media_type": "the name of the file in the form does not say its format",
    },
    f"POST {REREAD}": {
        "invalid_file": "the delimiter is not the file's",
        "invalid_option": "an option of another format, or a column that the file does not have",
        "url_too_long": LONG_URL,
    },
    "POST /v1/jobs": {
        "idempotency_key_reused": KEY,
        "invalid_problem": TOGETHER,
        "ngrams: the first number must be at most the second": TOGETHER,
        "refused_address": HOST,
        "unknown_class": ABSENT,
        "unknown_dataset": ABSENT,
        "unknown_model": ABSENT,
        "unknown_output": OUTPUT,
        "unknown_solver": ABSENT,
        "unsupported_problem": TOGETHER,
    },
    f"POST {SNAPSHOT}": {
        "empty": NO_ROWS,
        "given_twice": "`return` is in the query and in the body",
        "unknown_feature": ROWS,
        "unknown_output": OUTPUT,
        "wrong_width": ROWS,
    },
    "POST /v1/models/import": {"invalid_body": FILE, "unparsable": FILE, "unsupported": FILE},
    f"POST {ALIAS}/rollback": {
        "idempotency_key_reused": KEY,
        "precondition_failed": CHANGED,
        "unknown_revision": ABSENT,
    },
    "POST /v1/models/{ref}/evaluate": {
        "feature_mismatch": "the dataset has other columns than the model",
        "idempotency_key_reused": KEY,
        "refused_address": HOST,
        "unknown_dataset": ABSENT,
    },
    "POST /v1/models/{ref}/explain": {
        "empty": NO_ROWS,
        "missing_feature": ROWS,
        "not_a_number": ROWS,
        "unknown_feature": ROWS,
        "wrong_width": ROWS,
    },
    "POST /v1/models/{ref}/invocations": {
        "bad_line": LINES,
        "empty": NO_ROWS,
        "missing_feature": ROWS,
        "unknown_feature": ROWS,
        "wrong_width": ROWS,
    },
    "POST /v1/models/{ref}/predict": {
        "bad_line": LINES,
        "empty": NO_ROWS,
        "not_a_number": ROWS,
        "unknown_feature": ROWS,
        "unknown_output": OUTPUT,
        "unparsable": LINES,
        "wrong_width": ROWS,
    },
    "POST /v1/models/{ref}/verify": {
        "idempotency_key_reused": KEY,
        "refused_address": HOST,
        "unknown_dataset": ABSENT,
    },
    "POST /v1/uploads": {
        "idempotency_key_reused": KEY,
        "payload_too_large": TOO_LARGE,
        "url_too_long": LONG_URL,
    },
    "POST /v1/webhooks": {"idempotency_key_reused": KEY, "refused_address": HOST},
    **{
        f"POST /v2/models/{{name}}{version}/infer": {
            "empty": NO_TENSOR_ROWS,
            "invalid_body": DECIMAL_POINT,
            "missing_data": TOGETHER,
            "unknown_output": OUTPUT,
            "unparsable": FILE,
            "wrong_shape": TOGETHER,
        }
        for version in ("", "/versions/{version}")
    },
    f"PUT {ALIAS}": {
        "int_type": DECIMAL_POINT,
        "precondition_failed": CHANGED,
        "shadow must not be one of the targets": TOGETHER,
        "targets names a version twice": TOGETHER,
        "unknown_version": ABSENT,
    },
}
"""Why a request that the schema allows is refused: by operation, then by what the answer says."""
ACCEPTED: dict[str, dict[str, str]] = {
    "POST /v1/datasets": {"url_too_long": "414 is a refusal, which schemathesis does not expect"},
    f"POST {REREAD}": {"url_too_long": "414 is a refusal, which schemathesis does not expect"},
    "POST /v1/jobs": {"valid: false": "`validate_only` answers 200 and says what is wrong"},
}
"""Why a request that the schema forbids gets another status than those that schemathesis expects."""
ALLOWED: dict[str, dict[str, str]] = {
    "POST /v1/models/import": {"method_not_allowed": "`import` can be the name of a model, which GET and DELETE take"}
}
"""Why `Allow` names other methods than the document."""

ENTRIES: dict[str, str] = {
    f"{check}, {operation}: {said}": reason
    for check, table in (
        ("RejectedPositiveData", REFUSED),
        ("AcceptedNegativeData", ACCEPTED),
        ("AllowHeaderMismatch", ALLOWED),
    )
    for operation, reasons in table.items()
    for said, reason in reasons.items()
}
"""The same as one table, by the name that the hooks give to a report."""
