"""One module a job type: what a worker does. Its request is in app/jobs/types.

Each module declares a `JobWork` (app/worker/worker_context.py). Its `run` returns when the end of the job is committed
and raises one of app/worker/failures.py if the job did not succeed. The executor finds the declarations.
"""
