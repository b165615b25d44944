"""What schemathesis reports and is meant to be so: one entry for an operation, a check and a code.

Anything else fails the run. An entry that no case needs is printed at the end: remove it if no run needs it. Operations
that read rows share READ_ROWS, because they share the code that reads them.
"""

ALIAS = "/v1/models/{name}/aliases/{alias}"
REREAD = "/v1/datasets/{dataset_id}/reread"
SNAPSHOT = "/v1/jobs/{job_id}/predict"

CURSOR = "a cursor is a text that the service gave out"
KEY = "the same Idempotency-Key for two different requests"
LONG_URL = "an array in the query makes a URL of over 64 KiB"
FILE = "the bytes of a file are `format: binary` in the schema"
OPTION = "an option of another format, or a column that the file does not have"
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
NO_FOLDS = "the model was trained without folds, so it has no prediction sets"
WORD = "in a text format every body is a text: `null`, `false` or 1 is a libsvm row with a label and no features"

READ_ROWS = {
    "bad_line": LINES,
    "empty": NO_ROWS,
    "missing_feature": ROWS,
    "not_a_number": ROWS,
    "unknown_feature": ROWS,
    "unparsable": LINES,
    "wrong_type": DECIMAL_POINT,
    "wrong_width": ROWS,
}
"""Why rows that the schema allows are refused, whichever operation reads them."""

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
            "/v1/models/{ref}/restore",
            "/v1/webhooks/{webhook_id}/test",
        )
    },
    f"DELETE {ALIAS}": {"precondition_failed": CHANGED},
    "GET /v1/models/{ref}/export": {"unexpected": "only sql has `output`"},
    "PATCH /v1/uploads/{upload_id}": {
        "empty_body": FILE,
        "payload_too_large": TOO_LARGE,
        "upload_incomplete": "Upload-Complete with fewer bytes than were announced",
    },
    "POST /v1/datasets": {
        "empty_body": FILE,
        "idempotency_key_reused": KEY,
        "invalid_option": OPTION,
        "unsupported_media_type": "the name of the file in the form does not say its format",
    },
    f"POST {REREAD}": {
        "invalid_file": "the delimiter is not the file's",
        "invalid_option": OPTION,
        "url_too_long": LONG_URL,
    },
    "POST /v1/jobs": {
        "duplicate_solver": TOGETHER,
        "fold_column defines the folds": TOGETHER,
        "idempotency_key_reused": KEY,
        "invalid_options": "the options are those of another solver",
        "invalid_problem": TOGETHER,
        "min must be smaller than max": TOGETHER,
        "must not look like an id (a prefix such as mdl_ and 26 characters)": "a new model is named, and the id of an "
        "answer was put in",
        "ngrams: the first number must be at most the second": TOGETHER,
        "no_sets": NO_FOLDS,
        "refused_address": HOST,
        "unknown_class": ABSENT,
        "unknown_column": ABSENT,
        "unknown_dataset": ABSENT,
        "unknown_metric": "which metrics exist depends on the task, and the message lists them",
        "unknown_model": ABSENT,
        "unknown_output": OUTPUT,
        "unknown_solver": ABSENT,
        "unsupported_problem": TOGETHER,
    },
    f"POST {SNAPSHOT}": {
        **READ_ROWS,
        "no_sets": NO_FOLDS,
        "unexpected": TOGETHER,
        "given_twice": "`return` is in the query and in the body",
        "unknown_output": OUTPUT,
    },
    "POST /v1/models/import": {
        "idempotency_key_reused": KEY,
        "invalid_body": FILE,
        "unparsable": FILE,
        "unsupported": FILE,
    },
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
    "POST /v1/models/{ref}/explain": READ_ROWS,
    "POST /v1/models/{ref}/invocations": {
        **READ_ROWS,
        "duplicate_column": "the names of the columns must differ if the model has names",
        "unknown_output": OUTPUT,
        "wrong_length": TOGETHER,
        "wrong_order": "columns that are numbers must be 0, 1, 2, …",
        "wrong_shape": "exactly one of the four forms is given",
    },
    "POST /v1/models/{ref}/leave_one_out": {
        "idempotency_key_reused": KEY,
        "refused_address": HOST,
        "unknown_dataset": ABSENT,
    },
    "POST /v1/models/{ref}/predict": {
        **READ_ROWS,
        "no_sets": NO_FOLDS,
        "unexpected": TOGETHER,
        "given_twice": "`return` is in the query and in the body",
        "unknown_output": OUTPUT,
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
            "wrong_size": TOGETHER,
        }
        for version in ("", "/versions/{version}")
    },
    f"PUT {ALIAS}": {
        "give either version or targets": TOGETHER,
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
    **{
        f"POST {path}": {"accepted as text": WORD}
        for path in (SNAPSHOT, *(f"/v1/models/{{ref}}/{act}" for act in ("explain", "invocations", "predict")))
    },
    "POST /v1/jobs": {"valid: false": "`validate_only` answers 200 and says what is wrong"},
}
"""Why a request that the schema forbids gets another status than those that schemathesis expects."""
ALLOWED: dict[str, dict[str, str]] = {
    "POST /v1/models/import": {"method_not_allowed": "`import` can be the name of a model, which GET and DELETE take"}
}
"""Why `Allow` names other methods than the document."""
STREAMED: dict[str, dict[str, str]] = {
    "GET /v1/events": {"accepted": "the schema is that of the whole text; schemathesis compares each event with it"}
}
"""Why an answer does not fit its schema."""

ENTRIES: dict[str, str] = {
    f"{check}, {operation}: {said}": reason
    for check, table in (
        ("RejectedPositiveData", REFUSED),
        ("AcceptedNegativeData", ACCEPTED),
        ("AllowHeaderMismatch", ALLOWED),
        ("JsonSchemaError", STREAMED),
    )
    for operation, reasons in table.items()
    for said, reason in reasons.items()
}
"""The same as one table, by the name that the hooks give to a report."""
