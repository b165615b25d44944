"""What can be wrong with a request to train, as exceptions an end user can act on.

    ValueError
      SolverError              .argument names the argument at fault
        InvalidProblem         the data or the problem's definition makes no sense
        UnsupportedProblem     it makes sense, but the chosen solver (or any, today) cannot do it
        UnknownSolver          no solver has that name
        InvalidOptions         how to run it is wrong: a solver's option, a limit, a starting point

Failure to converge is not an error: it is a `Status` of the result.
"""

__all__ = ["InvalidOptions", "InvalidProblem", "SolverError", "UnknownSolver", "UnsupportedProblem"]


class SolverError(ValueError):
    """A request that cannot be solved as asked; the message says what would work."""

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
