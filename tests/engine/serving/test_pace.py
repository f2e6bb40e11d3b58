"""When a pass is launched that follows the one that the device computes."""

from engine.serving.pace import LAUNCH_MARGIN_S, StepClock


def test_the_next_pass_is_launched_half_way_through_a_repeated_step() -> None:
    clock, step = StepClock(), object()
    for now_s in (10.0, 10.1, 10.2):
        clock.note_end(step, now_s)
    assert abs(clock.due_s - 10.25) < 1e-9


def test_it_is_launched_at_once_while_nobody_knows_how_long_the_step_takes() -> None:
    clock, step = StepClock(), object()
    clock.note_end(step, 10.0)
    assert clock.due_s == 10.0
    clock.note_end(step, 10.1)
    clock.note_end(object(), 10.2)
    assert clock.due_s == 10.2


def test_it_is_launched_earlier_where_that_takes_long() -> None:
    clock, step = StepClock(), object()
    for now_s in (10.0, 10.1):
        clock.note_end(step, now_s)
    for _ in range(100):
        clock.note_launch(0.03)
    assert abs(clock.due_s - (10.2 - 0.06 - LAUNCH_MARGIN_S)) < 1e-9
    for _ in range(100):
        clock.note_launch(0.2)
    assert clock.due_s == 10.1


def test_a_step_that_was_kept_waiting_once_makes_later_ones_hardly_later() -> None:
    clock, step = StepClock(), object()
    for now_s in (10.0, 10.1, 12.1, 12.2):
        clock.note_end(step, now_s)
    assert 12.25 - 1e-9 < clock.due_s < 12.252
