"""The error of preprocessing, with its place."""


class PreprocessError(Exception):
    """A value, a column or a setting that cannot be used."""

    def __init__(self, code: str, message: str, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.column = column
        self.row = row
        """Number of the row among the given rows, from 0."""


def called(column: str) -> str:
    """Return a column's name for a message, shortened."""
    return repr(column if len(column) <= 64 else column[:63] + "…")
