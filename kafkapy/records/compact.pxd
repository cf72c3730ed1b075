# C types for compact.py, read by Cython alone; see scan.pxd.
cimport cython

cdef Py_ssize_t _ENTRIES, _MOST_ENTRIES, _LATEST, _FULL, _FIRST_DELTA, _LARGEST_DELTA, _LAST_DELTA
cdef Py_ssize_t _SMALLEST_DELTA, _TOMBSTONES

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, delta=cython.longlong,
    size=cython.longlong, _=cython.longlong,
)
cpdef Py_ssize_t put_keys(
    bytes content, Py_ssize_t count, long long base_offset, long long start_offset, long long[::1] table,
    long long[::1] state) except -100

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, kept=Py_ssize_t,
    place=Py_ssize_t, timestamp=cython.longlong, delta=cython.longlong, size=cython.longlong, stays=bint, is_tombstone=bint,
)
cpdef Py_ssize_t mark(
    bytes content, unsigned char[::1] marks, long long base_offset, bint retain_deletes, long long[::1] table,
    long long[::1] state) except -100

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, stop=Py_ssize_t, length=cython.longlong,
    place=Py_ssize_t, timestamp=cython.longlong, after=Py_ssize_t, rest=Py_ssize_t, written=Py_ssize_t,
)
cpdef Py_ssize_t rewrite(
    bytes content, const unsigned char[::1] marks, unsigned char[::1] output, long long shift,
    bint is_stamped) except -100

@cython.locals(place=Py_ssize_t, first=cython.longlong, second=cython.longlong, is_new=bint)
cpdef int put(bytes key, long long offset, long long[::1] table) except -100

@cython.locals(place=Py_ssize_t, _=cython.longlong)
cpdef long long find(bytes key, long long[::1] table) except -100

@cython.locals(first=cython.longlong, second=cython.longlong, end=Py_ssize_t, place=Py_ssize_t)
cdef (Py_ssize_t, long long, long long) _slot(bytes key, long long[::1] table)

@cython.locals(length=cython.longlong, stop=Py_ssize_t, timestamp=cython.longlong, delta=cython.longlong,
               size=cython.longlong)
cdef (Py_ssize_t, long long, long long, Py_ssize_t, long long) _record(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(size=cython.longlong, _=Py_ssize_t)
cdef bint _has_value(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t stop) noexcept

@cython.locals(bits=cython.ulonglong, raw=cython.ulonglong, shift=cython.int)
cdef (long long, Py_ssize_t) _number(const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

cdef unsigned long long _zigzag(long long value) noexcept

@cython.locals(bits=cython.ulonglong, size=cython.int)
cdef int _size(long long value) noexcept

@cython.locals(bits=cython.ulonglong)
cdef Py_ssize_t _write(unsigned char[::1] output, Py_ssize_t position, long long value) noexcept
