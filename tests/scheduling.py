"""Which worker of pytest-xdist runs which test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


class InGroups(LoadScopeScheduling):  # type: ignore[misc] # xdist has no types
    """Tests of a group run on one worker, one after the other, as scopes do. What a worker has done is forgotten: LoadScopeScheduling counts all of
    it whenever a test has ended, and looks for each test among all others, which was a minute of twenty thousand tests.
    """

    def __init__(self, config: pytest.Config, log: Any, group_of: Callable[[str], str]) -> None:
        super().__init__(config, log)
        self._group_of = group_of
        self._places = dict[str, int]()

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of(nodeid)

    def schedule(self) -> None:
        """Hand out what there is, once all workers know it."""
        if not self._places:  # all workers have the same tests in the same order, or nothing is run
            tests = next(iter(self.registered_collections.values()))
            self._places = {nodeid: place for place, nodeid in enumerate(tests)}
        super().schedule()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """A test that is asked once more ends twice."""
        nodeid = self.registered_collections[node][item_index]
        group, given = self._group_of(nodeid), self.assigned_work[node]
        if group in given:
            given[group][nodeid] = True
            if all(given[group].values()):
                del given[group]
        self._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        group, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][group] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid, is_done in tests.items() if not is_done])
