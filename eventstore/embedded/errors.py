"""What can keep the private engine from running. Each message is one sentence for the operator.

EngineError
└── DataDirectoryInUse    another process has the data directory
"""


class EngineError(Exception):
    """The engine cannot run; the message says why and what to do."""


class DataDirectoryInUse(EngineError):
    """Another live process holds the data directory."""
