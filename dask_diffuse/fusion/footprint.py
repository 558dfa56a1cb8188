"""How large the kernel of a group is, kept up to date while groups are merged."""

from __future__ import annotations

from dask_diffuse.fusion.facts import Facts
from dask_diffuse.options import Options

__all__ = ["Footprint"]


class Footprint:
    """What a group reads, computes and writes.

    Parameters
    ----------
    facts
        Of the program.
    task
        The task that the group is made of at first.
    """

    __slots__ = ("_arrays", "_reads", "_users", "values")

    def __init__(self, facts: Facts, task: int) -> None:
        self.values = facts.values[task]
        reads = facts.reads[task]
        # Stores that others write, and the arrays of the kernel that they are.
        self._arrays = {(read.store, read.axes) for read in reads}
        # Number of tasks of the group that read each of them.
        self._reads = dict.fromkeys((read.store for read in reads), 1)
        # Number of readers, out of the group, of each store that it writes.
        store, num_users = facts.stores[task]
        self._users = {store: num_users}

    @property
    def arrays(self) -> int:
        """Number of arrays that the kernel reads and writes."""
        return len(self._arrays) + len(self._users)

    def joint(self, other: Footprint) -> tuple[int, int]:
        """Return the numbers of values and arrays of two groups as one.

        Values are counted before equal ones are shared.
        """
        mine, others = self._users, other._users
        arrays = sum(array[0] not in others for array in self._arrays)
        arrays += sum(
            array not in self._arrays and array[0] not in mine
            for array in other._arrays
        )
        arrays += sum(n > other._reads.get(store, 0) for store, n in mine.items())
        arrays += sum(n > self._reads.get(store, 0) for store, n in others.items())
        return self.values + other.values, arrays

    def fits(self, other: Footprint, options: Options) -> bool:
        """Whether the kernel of two groups as one stays within the limits."""
        if self.values + other.values > options.max_group_values:
            return False
        most = options.max_group_arrays
        return self.arrays + other.arrays <= most or self.joint(other)[1] <= most

    def absorb(self, other: Footprint) -> None:
        """Become the footprint of two groups as one; the other one is used up."""
        self.values += other.values
        mine, others = self._users, other._users
        arrays = {array for array in self._arrays if array[0] not in others}
        arrays.update(array for array in other._arrays if array[0] not in mine)
        users = {
            store: left
            for written, read in ((mine, other._reads), (others, self._reads))
            for store, count in written.items()
            if (left := count - read.get(store, 0)) > 0
        }
        reads = {s: n for s, n in self._reads.items() if s not in others}
        for store, count in other._reads.items():
            if store not in mine:
                reads[store] = reads.get(store, 0) + count
        self._arrays, self._users, self._reads = arrays, users, reads
