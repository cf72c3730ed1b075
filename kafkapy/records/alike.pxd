# C types for alike.py, read by Cython alone; see scan.pxd.
cimport cython

cdef Py_ssize_t _HEADER_SIZE, _MAGIC, _ATTRIBUTES, _COUNT

@cython.locals(
    data="const unsigned char[::1]", end=Py_ssize_t, stop=Py_ssize_t, start=Py_ssize_t, met=dict, meaning=object,
)
cpdef tuple latest_alike(bytes content, Py_ssize_t position, Py_ssize_t tail_size, dict known)

@cython.locals(bits=cython.longlong)
cdef long long _int32(const unsigned char[::1] data, Py_ssize_t position) noexcept
