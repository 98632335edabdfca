"""Who may be accepted, and who has to hurry."""

from __future__ import annotations

from dotnetdiag.router.places import Places


def test_strangers_take_places_among_their_own_only() -> None:
    places = Places(8, most_strangers=4)
    strangers = [places.take() for _ in range(4)]
    assert not places.has_room()
    strangers[0].introduce()
    assert places.has_room()
    strangers[0].introduce()  # no more than that
    fifth = places.take()
    assert not places.has_room()
    fifth.leave()
    fifth.leave()
    assert places.has_room()


def test_all_places_are_taken_by_strangers_and_others_together() -> None:
    held = 0
    places = Places(3, most_strangers=4, others=lambda: held)
    first, second = places.take(), places.take()
    first.introduce()
    assert places.has_room()
    held = 1
    assert not places.has_room()
    second.leave()
    assert places.has_room()


def test_who_comes_when_half_of_the_places_are_taken_has_to_hurry() -> None:
    places = Places(8, most_strangers=4)
    assert [places.take().in_a_hurry for _ in range(4)] == [False, False, True, True]


def test_who_has_shown_who_it_is_is_no_stranger() -> None:
    place = Places(8).take()
    assert place.is_strangers
    place.introduce()
    assert not place.is_strangers
