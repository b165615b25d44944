"""One module per job type: the body of its request, its checks, its queueing and its result.

Each module declares a `JobType`; app/jobs/job_types.py finds them. app/worker/types has the worker's part.
"""
