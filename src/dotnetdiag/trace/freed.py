"""What was freed goes back to the system."""

from dotnetdiag.nettrace.kernels import give_back_freed

__all__ = ["give_back_freed"]
