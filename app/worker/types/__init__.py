"""The worker's side of the job types, one module each. Requests are in app/jobs/types.

Each module declares a `JobWork` (app/worker/worker_context.py). Its `run` returns when the end of the job is committed,
and raises an exception of app/worker/failures.py if the job did not succeed. The executor finds the declarations.
"""
