# C types for scan.py, read by Cython alone. 64-bit numbers wrap in C where scan.py masks them.
cimport cython

cdef long long _SIGN, _MASK, _SIGN_16, _MASK_16  # as literals they would be Python's integers

@cython.locals(
    end=Py_ssize_t, position=Py_ssize_t, smallest=cython.longlong, largest=cython.longlong, largest_place=Py_ssize_t,
    null_keys=Py_ssize_t, in_order=bint, place=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong,
    key_length=cython.longlong,
)
cpdef tuple scan(const unsigned char[::1] data, Py_ssize_t count)

@cython.locals(
    end=Py_ssize_t, position=Py_ssize_t, count=Py_ssize_t, base_timestamp=cython.longlong,
    max_timestamp=cython.longlong, producer_id=cython.longlong, producer_epoch=cython.longlong,
    base_sequence=cython.longlong, is_transactional=bint, smallest=cython.longlong, largest=cython.longlong,
    largest_place=Py_ssize_t, place=Py_ssize_t, delta=cython.longlong, offset_delta=cython.longlong,
    key_length=cython.longlong, crc=cython.longlong,
)
cpdef tuple check_usual(
    const unsigned char[::1] data, long long now_ms, long long difference_max_ms, bint key_required)

@cython.locals(count=cython.longlong)
cdef long long _usual_count(const unsigned char[::1] data, Py_ssize_t end) noexcept

@cython.locals(bits=cython.longlong)
cdef long long _int32(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(high=cython.longlong, low=cython.longlong)
cdef long long _int64(const unsigned char[::1] data, Py_ssize_t position) noexcept

@cython.locals(length=cython.longlong, delta=cython.longlong, offset_delta=cython.longlong, key_length=cython.longlong,
               count=cython.longlong, _=cython.longlong)
cdef (Py_ssize_t, long long, long long, long long) _record(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(length=cython.longlong)
cdef (long long, Py_ssize_t) _field(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(bits=cython.ulonglong, raw=cython.ulonglong, shift=cython.int)
cdef (long long, Py_ssize_t) _number32(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept

@cython.locals(bits=cython.ulonglong, raw=cython.ulonglong, shift=cython.int)
cdef (long long, Py_ssize_t) _number64(
    const unsigned char[::1] data, Py_ssize_t position, Py_ssize_t end) noexcept
