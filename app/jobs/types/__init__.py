"""One module a job type: the body of its request, how it is checked and queued, what its result holds.

Each module declares a `JobType`; app/jobs/job_types.py finds them. What a worker does is in app/worker/types.
"""
