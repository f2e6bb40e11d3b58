"""What stops a benchmark."""


class WrongResult(SystemExit):
    """A kernel's result is not what it is defined to be: no figure is given."""
