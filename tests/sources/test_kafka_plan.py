from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from changeling.sources.kafka_plan import KafkaPlan, Progress, SeenTopic, Span, Topic, limited, shares


def topic(*spans: tuple[int, int], id: str | None = "id") -> Topic:
    return Topic(id, {place: Span(*span) for place, span in enumerate(spans)})


def remembered(*plans: KafkaPlan) -> Progress:
    progress = Progress()
    for plan in plans:
        progress.remember(KafkaPlan.parse(plan.text()))
    return progress


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.integers(1, 10**9))
def test_shares_keep_the_limit_and_leave_nobody_out(backlog: list[int], limit: int) -> None:
    taken = shares(backlog, limit)
    assert sum(taken) == min(sum(backlog), max(limit, sum(size > 0 for size in backlog)))
    assert all(min(size, 1) <= part <= size for part, size in zip(taken, backlog, strict=True))
    smaller_first = sorted(zip(backlog, taken, strict=True))
    assert all(one[1] <= other[1] + 1 for one, other in pairwise(smaller_first))


def test_shares_follow_the_backlog() -> None:
    assert shares([900, 90, 10, 0, 1], 101) == [88, 10, 2, 0, 1]
    assert shares([5, 5, 5], 2) == [1, 1, 1]


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 20),
)
def test_plans_cover_every_offset_once(sizes: list[list[int]], limit: int) -> None:
    current = {f"t{place}": topic(*((0, size) for size in ends)) for place, ends in enumerate(sizes)}
    progress, offsets = Progress(), []
    while (plan := progress.plan_next(current, [], limit, "earliest")) is not None:
        assert plan.records <= max(limit, sum(len(ends) for ends in sizes))
        offsets += [
            (name, partition, offset)
            for name, partition, span in plan.spans()
            for offset in range(span.start, span.end)
        ]
        progress.remember(KafkaPlan.parse(plan.text()))
    assert len(offsets) == len(set(offsets)) == sum(map(sum, sizes))


def test_a_partition_that_lost_its_end_goes_on_there_under_a_new_number() -> None:
    progress = remembered(
        KafkaPlan((SeenTopic("a", "id"), SeenTopic("b", "id")), {"a": {0: Span(0, 9), 1: Span(0, 5)}})
    )
    current = {"a": topic((0, 7), (0, 6)), "b": topic((0, 1))}
    (gap,) = progress.gaps(current, ["a", "b"])
    assert gap.doubtful
    assert gap.why.startswith("topic 'a' partition 0 ends at offset 7 and did so at 9 before")
    plan = progress.plan_next(current, [gap], 100, "earliest")
    assert plan is not None
    assert plan.ranges == {"a": {0: Span(7, 7), 1: Span(5, 6)}, "b": {0: Span(0, 1)}}
    assert plan.ordinals() == {"a": 2, "b": 1}
    progress.remember(plan)
    grown = {"a": topic((0, 8), (0, 6)), "b": topic((0, 1))}
    assert progress.gaps(grown, ["a", "b"]) == []
    plan = progress.plan_next(grown, [], 100, "earliest")
    assert plan is not None
    assert plan.ranges == {"a": {0: Span(7, 8)}}


def test_a_gap_with_nothing_behind_it_is_skipped_once() -> None:
    progress = remembered(
        KafkaPlan((SeenTopic("a", "id"), SeenTopic("b", "id")), {"a": {0: Span(0, 1)}, "b": {0: Span(0, 1)}})
    )
    current = {"a": topic((4, 4)), "b": topic((0, 0), id="new")}
    plan = progress.plan_next(current, progress.gaps(current, ["a", "b"]), 100, "earliest")
    assert plan is not None
    assert plan.ranges == {"a": {0: Span(4, 4)}, "b": {0: Span(0, 0)}}
    assert plan.records == 0
    progress.remember(plan)
    assert progress.gaps(current, ["a", "b"]) == []
    assert progress.plan_next(current, [], 100, "earliest") is None


def test_a_shorter_topic_without_an_id_is_taken_for_a_new_one() -> None:
    progress = remembered(KafkaPlan((SeenTopic("a"),), {"a": {0: Span(0, 9)}}))
    current = {"a": topic((0, 3), id=None)}
    plan = progress.plan_next(current, progress.gaps(current, ["a"]), 100, "earliest")
    assert plan is not None
    assert plan.ranges == {"a": {0: Span(0, 3)}}
    assert plan.ordinals() == {"a": 1}


def test_what_a_topic_that_was_recreated_held_before_is_forgotten() -> None:
    first = KafkaPlan((SeenTopic("a", "old"),), {"a": {0: Span(0, 9), 1: Span(0, 4)}})
    second = KafkaPlan((SeenTopic("a", "old"), SeenTopic("a", "new")), {"a": {0: Span(0, 2)}})
    third = KafkaPlan(second.topics, {"a": {0: Span(2, 3)}})
    progress = remembered(first, second, third)
    current = {"a": topic((0, 3), (0, 1), id="new")}
    assert progress.gaps(current, ["a"]) == []
    plan = progress.plan_next(current, [], 100, "earliest")
    assert plan is not None
    assert plan.ranges == {"a": {1: Span(0, 1)}}
    assert plan.topics == second.topics


def test_latest_begins_with_a_plan_even_where_there_is_no_topic() -> None:
    progress = Progress()
    plan = progress.plan_next({}, [], 10, "latest")
    assert plan == KafkaPlan((), {})
    progress.remember(plan)
    assert progress.plan_next({}, [], 10, "latest") is None
    plan = progress.plan_next({"a": topic((3, 5))}, [], 10, "latest")
    assert plan is not None
    assert plan.ranges == {"a": {0: Span(3, 5)}}


def test_no_more_than_was_there_at_a_time() -> None:
    then = {"a": topic((0, 5), (0, 2)), "gone": topic((0, 1)), "recreated": topic((0, 1), id="old")}
    now = {"a": topic((1, 9), (4, 8), (0, 3)), "late": topic((0, 1)), "recreated": topic((0, 1), id="new")}
    assert limited(now, then) == {"a": topic((1, 5), (4, 4))}
