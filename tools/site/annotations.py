"""What a command of a client gives back, for readers: ``Operation[Either[T, A]]`` is ``T`` of Client (griffe's extension)."""

from __future__ import annotations

from typing import Any

from griffe import ExprSubscript, ExprTuple, Extension, Function


class Results(Extension):
    """Shows what ``Client`` returns where the code says what its command performs."""

    def on_function_instance(self, *, func: Function, **_: Any) -> None:
        """Takes ``Operation`` and ``Either`` away."""
        returns = func.returns
        for name in ("Operation", "Either"):
            if isinstance(returns, ExprSubscript) and str(returns.left) == name:
                inner = returns.slice
                returns = inner.elements[0] if isinstance(inner, ExprTuple) else inner
        func.returns = returns
