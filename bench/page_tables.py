"""What a forked process lacks that its parent has: page tables.

After a fork, each page of code has to be mapped again when it is first used, and each page of memory is copied when it
is first written to. That takes longer than a small program itself, and happens in no process of a user. So a forked
process that measures first calls maps and copies at once what its parent had.
"""

from __future__ import annotations

import array
import ctypes
import mmap

_POPULATE_READ, _POPULATE_WRITE = 22, 23  # of Linux 5.14
_PRESENT = 63  # the bit of a page map

Pages = list[tuple[int, int, bool]]  # address, bytes, whether they may be written to


def present_pages() -> Pages:
    """The pages of this process that are mapped now."""
    pages: Pages = []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb") as pagemap:
        for line in maps.readlines():
            addresses, rights, *_ = line.split()
            if "r" not in rights or line.rstrip().endswith(("[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]")):
                continue
            first, end = (int(address, 16) // mmap.PAGESIZE for address in addresses.split("-"))
            pagemap.seek(first * 8)
            entries = array.array("Q", pagemap.read((end - first) * 8))
            _add_runs(pages, first, entries, "w" in rights)
    return pages


def _add_runs(pages: Pages, first: int, entries: array.array[int], is_writable: bool) -> None:
    start: int | None = None
    for number, entry in enumerate([*entries, 0]):
        if entry >> _PRESENT:
            start = number if start is None else start
        elif start is not None:
            pages.append(((first + start) * mmap.PAGESIZE, (number - start) * mmap.PAGESIZE, is_writable))
            start = None


def map_pages(pages: Pages) -> None:
    """In a child of the process that has listed them."""
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    for address, size, is_writable in pages:
        madvise(address, size, _POPULATE_WRITE if is_writable else _POPULATE_READ)
