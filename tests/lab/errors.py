"""What goes wrong in the lab itself, and not in what it tests."""


class LabError(Exception):
    """The lab itself failed, or what it waited for did not come."""


class MissingError(LabError):
    """This host lacks what a scenario needs."""
