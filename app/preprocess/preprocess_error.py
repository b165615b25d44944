"""The exception that preprocessing raises, with the column and the row of the error."""


class PreprocessError(Exception):
    """Raised for a value, a column or a setting that preprocessing cannot use."""

    def __init__(self, code: str, message: str, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.column = column
        self.row = row
        """Number of the row among the given rows, counted from 0."""


def called(column: str) -> str:
    """Return a column's name for a message, shortened."""
    return repr(column if len(column) <= 64 else column[:63] + "…")
