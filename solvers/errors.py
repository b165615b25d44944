"""Exceptions for what can be wrong with a request to train.

    ValueError
      SolverError              .argument names the argument that is wrong
        InvalidProblem         the data or the definition of the problem is invalid
        UnsupportedProblem     the problem is valid, but the chosen solver (or every solver) does not support it
        UnknownSolver          no solver has that name
        InvalidOptions         a solver's option, a limit or a starting point is invalid

Failure to converge is not an error: it is a `Status` of the result.
"""

__all__ = ["InvalidOptions", "InvalidProblem", "SolverError", "UnknownSolver", "UnsupportedProblem"]


class SolverError(ValueError):
    """An invalid or unsupported argument. `argument` names it, and the message says which values work."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(argument, message)
        self.argument = argument
        self.message = message

    def __str__(self) -> str:
        return f"{self.argument}: {self.message}"


class InvalidProblem(SolverError):
    pass


class UnsupportedProblem(SolverError):
    pass


class UnknownSolver(SolverError):
    pass


class InvalidOptions(SolverError):
    pass
