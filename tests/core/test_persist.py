"""The four containers: against plain ones, at any depth, and without a change in place."""

import copy
import pickle
import subprocess
import sys
from collections import deque
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flownb.core.persist import Chain, Fifo, Names, Table

DEEP = 100_000
MAKERS = {
    "Fifo": Fifo.of,
    "Chain": Chain.of,
    "Table": lambda values: Table.of(enumerate(values)),
    "Names": lambda values: Names.of((str(n), value) for n, value in enumerate(values)),
}

small_ids = st.integers(0, 90)
ids = st.one_of(small_ids, st.integers(0, 5_000), st.integers(0, 2**40))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers()), st.just(("get", 0)), st.tuples(st.just("unget"), st.integers())
        )
    )
)
def test_a_fifo_is_a_deque(calls):
    """R1.6: whatever the order of calls, the same values in the same order; older versions stay as they were."""
    queue, model = Fifo(), deque()
    versions = [(queue, [])]
    for call, value in calls:
        if call == "put":
            queue = queue.put(value)
            model.append(value)
        elif call == "unget":
            queue = queue.unget(value)
            model.appendleft(value)
        elif model:
            first, queue = queue.get()
            assert first == model.popleft()
        else:
            with pytest.raises(IndexError):
                queue.get()
        versions.append((queue, list(model)))

    for version, values in versions:
        assert list(version) == values
        assert len(version) == len(values)
        assert version == Fifo.of(values)


@given(st.lists(st.integers()), st.lists(st.integers()))
def test_put_many_is_many_puts(first, then):
    """R1.6: one pass over what comes, none over what is there."""
    one_by_one = Fifo.of(first)
    for value in then:
        one_by_one = one_by_one.put(value)

    assert Fifo.of(first).put_many(then) == one_by_one
    assert list(Fifo.of(first).put_many(then)) == [*first, *then]


@given(st.lists(st.integers()))
def test_a_chain_is_a_list_that_grows(values):
    """R1.6: newest first, or oldest first on demand; older versions stay as they were."""
    chain = Chain()
    versions = [chain]
    for value in values:
        chain = chain.add(value)
        versions.append(chain)

    for n, version in enumerate(versions):
        assert version.oldest_first() == values[:n]
        assert list(version) == values[:n][::-1]
        assert len(version) == n
        assert version == Chain.of(values[:n])


@given(st.lists(st.tuples(st.sampled_from(("set", "set", "set", "drop")), ids, st.integers())))
def test_a_table_is_a_dict_in_the_order_of_its_ids(calls):
    """R1.6: small or a tree, the same entries; older versions stay as they were."""
    table, model = Table(), {}
    versions = [(table, {})]
    for call, key, value in calls:
        if call == "set":
            table, model = table.set(key, value), {**model, key: value}
        elif model:
            there = sorted(model)[key % len(model)]
            table = table.drop(there)
            model = {k: v for k, v in model.items() if k != there}
        versions.append((table, model))

    for version, entries in versions:
        assert list(version.items()) == sorted(entries.items())
        assert list(version) == sorted(entries)
        assert list(version.values()) == [entries[key] for key in sorted(entries)]
        assert len(version) == len(entries)
        assert version == Table.of(entries.items())


@given(st.sets(ids, min_size=60, max_size=150), st.randoms(use_true_random=False))
def test_a_table_goes_up_to_a_tree_andback(keys, random):
    """R1.6: across both thresholds, in any order of ids."""
    order = list(keys)
    random.shuffle(order)
    table, left = Table.of((key, str(key)) for key in order), dict.fromkeys(keys)
    random.shuffle(order)

    for key in order:
        assert table[key] == str(key)
        table = table.drop(key)
        del left[key]
        assert list(table) == sorted(left)
        assert key not in table
        with pytest.raises(KeyError):
            table.drop(key)
    assert table == Table()


@pytest.mark.parametrize("size", [3, 70])
def test_a_table_says_what_it_does_not_have(size):
    """Small or a tree: `get` gives None, `[]` raises, and an id beyond the tree is no other id's place."""
    table = Table.of((key, key + 1) for key in range(size))

    assert table.get(size) is None
    assert table.get(size + 32**5) is None
    assert size not in table
    assert 0 in table
    assert table[0] == 1
    with pytest.raises(KeyError):
        table[size]
    with pytest.raises(KeyError):
        table.drop(size)


def test_a_table_misses_ids_between_far_ones():
    """A branch of the tree that was never made holds nothing."""
    table = Table.of((key * 32**3, key) for key in range(1, 80))

    assert table.get(1) is None
    assert table.get(32**3 + 1) is None
    assert table.get(32**3) == 1


@pytest.mark.parametrize("size", [10, 200])
def test_setting_an_id_again_replaces_its_value(size):
    """The count stays."""
    table = Table.of((key, "old") for key in range(size)).set(5, "new")

    assert len(table) == size
    assert table[5] == "new"
    assert [value for value in table.values() if value == "new"] == ["new"]


def test_a_tree_shares_what_did_not_change():
    """R1.6: one entry of 10,000 is set by copying its path alone."""
    table = Table.of((key, str(key)) for key in range(10_000))
    changed = table.set(7, "seven")

    ours, others = table.root, changed.root
    assert [a is b for a, b in zip(ours, others, strict=True)].count(False) == 1
    assert table[7] == "7"


def test_a_queue_shares_what_did_not_change():
    """R1.6: `put` and `get` make one cell, however long the queue."""
    queue = Fifo.of(range(1_000))
    assert queue.put(1).back[1] is queue.back
    _, rest = queue.get()
    assert rest.get()[1].front is rest.front[1]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_container_may_be_as_long_as_it_likes(kind):
    """`==`, `repr`, pickling and copying are loops: 100,000 entries overflow no stack; names are in a flat tree."""
    make, size = MAKERS[kind], DEEP if kind != "Names" else DEEP // 20
    long, same = make(range(size)), make(range(size))
    other = make([*range(size - 1), -1])

    assert long == same
    assert long != other
    assert len(repr(long)) > size
    assert pickle.loads(pickle.dumps(long)) == long
    assert copy.deepcopy(long) == long
    assert copy.copy(long) == long
    assert len(long) == len(list(long)) == size
    del long, same, other  # and is freed without one


def test_a_queue_that_was_half_read_is_equal_to_a_fresh_one():
    """How a queue is split inside is nobody's business; it pickles whole too."""
    half = Fifo.of([0, 1, 2]).get()[1].put(3)

    assert half == Fifo.of([1, 2, 3])
    assert pickle.loads(pickle.dumps(half)) == half


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_container_equals_only_its_kind(make):
    """And is no key of a dict, since what it holds may be none."""
    assert make([1]) != [1]
    assert make([1]) != make([1, 2])
    assert make([1]) != make([2])
    with pytest.raises(TypeError):
        hash(make([1]))


def test_containers_show_what_they_hold():
    """`repr` is what makes an equal one."""
    assert repr(Fifo.of([1, 2])) == "Fifo.of([1, 2])"
    assert repr(Chain.of([1, 2])) == "Chain.of([1, 2])"
    assert repr(Table.of([(3, "c"), (1, "a")])) == "Table.of([(1, 'a'), (3, 'c')])"
    assert repr(Names.of([("b", 3), ("a", 1)])) == "Names.of([('b', 3), ('a', 1)])"


# Names

#: Two names with one checksum.
SAME = ("codding", "gnu")
names = st.one_of(st.sampled_from([*SAME, "a", "", "é", "\ud800"]), st.text(max_size=3))


def test_two_names_may_share_a_checksum():
    """R1.6: what the tests below stand on."""
    assert len({crc32(name.encode()) for name in SAME}) == 1


@given(st.lists(st.tuples(st.sampled_from(("set", "set", "drop")), names, st.integers())))
def test_names_are_a_dict(calls):
    """R1.6: in the order in which names came; one that is set again keeps its place; older versions stay."""
    table, model = Names(), {}
    versions = [(table, {})]
    for call, name, value in calls:
        if call == "set":
            table, model = table.set(name, value), {**model, name: value}
        elif name in model:
            table = table.drop(name)
            model = {k: v for k, v in model.items() if k != name}
        else:
            with pytest.raises(KeyError):
                table.drop(name)
        versions.append((table, model))

    for version, entries in versions:
        assert list(version.items()) == list(entries.items())
        assert list(version) == list(entries)
        assert list(version.values()) == list(entries.values())
        assert len(version) == len(entries)
        assert version == Names.of(entries.items())
        assert pickle.loads(pickle.dumps(version)) == version
        assert all(version.get(name) == entries.get(name) for name in (*SAME, "a", "nobody's"))


def test_names_say_what_they_do_not_have():
    """`get` gives None, `[]` raises; also where another name has the same checksum."""
    one, other = SAME
    table = Names.of([(one, 1)])
    assert (table[one], table.get(other), one in table, other in table) == (1, None, True, False)
    with pytest.raises(KeyError):
        table[other]
    with pytest.raises(KeyError):
        table.drop(other)
    assert table.set(other, 2).drop(one) == Names.of([(other, 2)])


def test_names_in_another_order_are_others():
    """As in the user's eyes: the order in which names came is shown."""
    assert Names.of([("a", 1), ("b", 2)]) != Names.of([("b", 2), ("a", 1)])
    assert Names.of([("a", 1)]) != Names.of([("b", 1)])


def test_names_stand_in_the_same_places_in_every_process():
    """R1.4: no hash that a process draws for itself."""
    show = "from flownb.core.persist import Names; print(list(Names.of([('a', 1), ('b', 2)]).table))"
    told = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, timeout=60).stdout
    assert told.strip() == str(list(Names.of([("a", 1), ("b", 2)]).table))


def test_names_share_what_did_not_change():
    """R1.6: one of 10,000 is set by copying its path alone."""
    table = Names.of((str(n), n) for n in range(10_000))
    changed = table.set("7", "seven")
    ours, others = table.table.root, changed.table.root
    assert [a is b for a, b in zip(ours, others, strict=True)].count(False) == 1
    assert (table["7"], changed["7"]) == (7, "seven")
