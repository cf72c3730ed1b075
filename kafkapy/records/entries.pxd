# C types for entries.py, read by Cython alone; see scan.pxd.
cimport cython

cdef Py_ssize_t _MAGIC, _TIMESTAMP, _OVERHEAD

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, place=Py_ssize_t, smallest=cython.longlong,
    largest=cython.longlong, largest_place=Py_ssize_t, null_keys=Py_ssize_t, in_order=bint, largest_size=Py_ssize_t,
    timestamp=cython.longlong, fields=Py_ssize_t, stop=Py_ssize_t,
)
cpdef tuple scan_entries(object content, int magic)

@cython.locals(key_at=Py_ssize_t, value_at=Py_ssize_t, stop=Py_ssize_t, size=cython.longlong)
cdef Py_ssize_t _end_of(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end, int magic) noexcept

@cython.locals(data="unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, offset=cython.longlong, at=cython.int)
cpdef number_entries(object content, long long first_offset)

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, position=Py_ssize_t, place=Py_ssize_t, written=Py_ssize_t,
    first=cython.longlong, delta=cython.longlong, fields=Py_ssize_t, key_at=Py_ssize_t, key_size=cython.longlong,
    value_at=Py_ssize_t, value_size=cython.longlong, size=cython.longlong,
)
cpdef Py_ssize_t rewrite_entries(object content, int magic, unsigned char[::1] output) except -100

@cython.locals(bits=cython.longlong)
cdef long long _int32(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(low=cython.longlong)
cdef long long _int64(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(bits=cython.ulonglong, size=cython.int)
cdef int _size(long long value) noexcept

@cython.locals(bits=cython.ulonglong)
cdef Py_ssize_t _write(unsigned char[::1] output, Py_ssize_t position, long long value) noexcept
