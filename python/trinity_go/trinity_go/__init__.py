"""Trinity-Go for Python: where its program is. `python -m trinity_go` starts it."""

from ._binary import NotInstalled, binary

__all__ = ["NotInstalled", "binary"]
