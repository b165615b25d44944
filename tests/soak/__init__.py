"""Random faults against a real service while clients work, and a ledger of what they were promised.

`python -m tests.soak --seconds 600 --seed 7 --database both` runs it; see `__main__.py`.
"""
