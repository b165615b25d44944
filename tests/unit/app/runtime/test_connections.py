"""Places for connections: idle ones make room, those at work keep theirs."""

from app.runtime.connections import Room


class Connection:
    def __init__(self) -> None:
        self.closed = False

    def close_idle(self) -> None:
        self.closed = True


def test_the_longest_idle_connection_gives_its_place_to_a_newcomer() -> None:
    room = Room(2)
    first, second, third, fourth = (Connection() for _ in range(4))
    assert room.enter(first)
    assert room.enter(second)
    room.begin_work(first)
    room.end_work(first)  # now the second has been idle for longer
    assert room.enter(third)
    assert (first.closed, second.closed) == (False, True)
    assert room.enter(fourth)
    assert first.closed
    assert len(room) == 2


def test_a_connection_at_work_keeps_its_place() -> None:
    room = Room(1)
    first, second = Connection(), Connection()
    assert room.enter(first)
    room.begin_work(first)
    assert not room.enter(second)
    assert not first.closed
    room.leave(first)
    assert room.enter(second)


def test_a_connection_that_lost_its_place_does_not_get_it_back() -> None:
    room = Room(1)
    first, second = Connection(), Connection()
    room.enter(first)
    room.enter(second)
    room.end_work(first)
    room.leave(first)
    room.begin_work(second)
    assert not room.enter(first)
