"""The one error of streams: the data is not as it should be, in one line for the user."""


class StreamError(ValueError):
    """A file, a column or a row cannot be used; the message says which and what to do."""

    def __init__(self, message: str, column: str | None = None) -> None:
        super().__init__(message)
        self.column = column
