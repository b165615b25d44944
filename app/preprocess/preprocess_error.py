"""What preprocessing refuses, with the place."""


class PreprocessError(Exception):
    """A value, a column or a wish that cannot be used."""

    def __init__(self, code: str, message: str, column: str | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.column = column
        self.row = row
        """Counted from 0 among the rows that were given."""


def called(column: str) -> str:
    """A column's name as a message shows it: short, whatever the client wrote."""
    return repr(column if len(column) <= 64 else column[:63] + "…")
