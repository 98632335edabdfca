"""Tags as the runtime writes them, ``room=a,b=2``, taken apart again: nothing in them is escaped, so this is a matter of evidence.

Known for certain (measured on 8, 9 and 10, and in the runtime's source): tags of a measurement, of an instrument and of a meter are in the
order of their keys, by UTF-16 units; a key and its value have ``=`` between them, two tags a comma. Metadata of EventCounters are
``key:value``, in the order in which they were added.

Rule 1: what stands before the first ``=`` is the first key. A piece between commas without ``=`` goes on with the value before it.
Rule 2: so does a piece whose key is not behind the one before it in the order (of two equal keys too, which an object cannot hold), or is no
name (empty, or with blanks, quotes or brackets), unless it is the first key of another series of the instrument.
Rule 3: so does a piece whose key no other series of the instrument has, where either values of the tag before it have commas in another
series, for certain; or all other series, at least :data:`MANY`, have just the other keys, and none is the same but for that tag.
Rule 4: every other piece begins a tag.

What this cannot know: ``k=x,z=1`` of a single series is two tags, also when it was ``x,z=1``; an optional tag that one series alone has is
taken for a part of a value under rule 3. Whatever is decided, the tags written one after another are the text again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

MANY = 4
"""So many series with the same keys make one with another key doubtful."""
_NAME = re.compile(r"[^\s\"'`<>(){}\[\]]+")

Pieces = list[tuple[str, str]]


class TagTexts:
    """The texts of the series of one instrument, which tell of each other. ``mark`` stands between a key and its value; ``is_sorted``: the
    keys are in order.
    """

    def __init__(self, mark: str = "=", *, is_sorted: bool = True) -> None:
        self._mark, self._is_sorted = mark, is_sorted
        self._texts: set[str] = set()
        self._first_keys: set[str] = set()
        self._read: dict[str, dict[str, str]] = {}

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def learn(self, texts: Iterable[str]) -> None:
        """Take these into account in what is read from now on; what was read stays as it is."""
        for text in texts:
            self._texts.add(text)
            self._first_keys.add(text.partition(self._mark)[0])

    def keep(self, texts: Collection[str]) -> None:
        """Know these alone, as they were read."""
        self._texts.intersection_update(texts)
        self._read = {text: tags for text, tags in self._read.items() if text in self._texts}
        self._first_keys = {text.partition(self._mark)[0] for text in self._texts}

    def read(self, text: str) -> Mapping[str, str]:
        """The tags of one, keys in their order. All that were learned are read with it."""
        if text not in self._read:
            self.learn([text])
            missing = self._texts - self._read.keys()
            whole = {text: self._pieces(text) for text in self._texts}
            keys = {text: tuple(key for key, _ in pieces) for text, pieces in whole.items()}
            sets, having = Counter(keys.values()), Counter(key for known in keys.values() for key in known)
            with_commas = Counter(key for pieces in whole.values() for key, value in pieces if "," in value)
            for one in missing:
                doubtful = {key for key in keys[one][1:] if having[key] == 1}
                pieces = self._without(whole[one], doubtful, sets, with_commas) if doubtful else whole[one]
                self._read[one] = dict(pieces)
        return self._read[text]

    def _pieces(self, text: str) -> Pieces:
        """By rules 1 and 2."""
        if not text:
            return []
        head, mark, rest = text.partition(self._mark)
        if not mark:
            return [(text, "")]
        found: Pieces = []
        key, (value, *parts) = head, rest.split(",")
        for part in parts:
            other, mark, tail = part.partition(self._mark)
            if mark and self._is_key(other) and (not self._is_sorted or _order(other) > _order(key)):
                found.append((key, value))
                key, value = other, tail
            else:
                value = f"{value},{part}"
        return [*found, (key, value)]

    def _is_key(self, text: str) -> bool:
        return bool(_NAME.fullmatch(text)) or text in self._first_keys

    def _without(
        self, pieces: Pieces, doubtful: set[str], sets: Counter[tuple[str, ...]], with_commas: Counter[str]
    ) -> Pieces:
        """By rules 3 and 4: the pieces, those with doubtful keys joined to the tags before them where the evidence is for that."""
        kept = [(key, value) for key, value in pieces if key not in doubtful]
        others = sum(sets.values()) - 1
        alone = sets[tuple(key for key, _ in kept)] == others >= MANY and self._text(kept) not in self._texts
        elsewhere = {key for key, value in pieces if with_commas[key] > ("," in value)}
        made: Pieces = []
        for key, value in pieces:
            if key in doubtful and (alone or made[-1][0] in elsewhere):
                before, start = made.pop()
                made.append((before, f"{start},{key}{self._mark}{value}"))
            else:
                made.append((key, value))
        return made

    def _text(self, pieces: Pieces) -> str:
        return ",".join(f"{key}{self._mark}{value}" for key, value in pieces)


def _order(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
