/* What kernels compiled ahead need at run time: calls from Python, and memory for the arrays they make.

   A call walks the arguments with a program, the numbers that `program` in loglinear.kernels.signature makes of a signature:

       ARRAY class type ndim mask flags strided    the words: address, shape and, if strided, strides
       TUPLE class n                               and then each of its n items
       SCALAR kind class class                     the word: the number itself; either class will do
       NONE

   and writes what it finds as words of eight bytes, from which the kernel's entry takes its arguments. An argument of
   another type gives NotImplemented. No header of Python's or NumPy's is needed: of Python only functions of the stable
   interface are used, and of an array the fields that NumPy's headers fix (loglinear_fields lets the loader check that).
*/

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct object { intptr_t references; void *type; } object;
typedef struct { object head; void *scalar; char kind, letter, order, flags; int number; } array_type;
typedef struct {
    object head;
    char *data;
    int ndim;
    intptr_t *shape, *strides;
    object *base;
    array_type *type;
    int flags;
} array;
typedef struct { const char *name; void *function; int flags; const char *text; } method;

extern object _Py_NoneStruct, _Py_NotImplementedStruct;
extern object *PyExc_RuntimeError;
long long PyLong_AsLongLong(object *);
double PyFloat_AsDouble(object *);
int PyObject_IsTrue(object *);
object *PyErr_Occurred(void);
void PyErr_SetString(object *, const char *);
object *PyErr_NoMemory(void);
object *PyLong_FromLongLong(long long);
object *PyLong_FromUnsignedLongLong(unsigned long long);
object *PyFloat_FromDouble(double);
object *PyBool_FromLong(long);
object *PyTuple_New(intptr_t);
object *PyTuple_GetItem(object *, intptr_t);
intptr_t PyTuple_Size(object *);
int PyTuple_SetItem(object *, intptr_t, object *);
object *PyCapsule_New(void *, const char *, void *);
void *PyCapsule_GetPointer(object *, const char *);
object *PyCFunction_NewEx(method *, object *, object *);
void *PyEval_SaveThread(void);
void PyEval_RestoreThread(void *);
void Py_IncRef(object *);
void Py_DecRef(object *);

enum { ARRAY, TUPLE, SCALAR, NONE };
enum { LARGEST_CALL = 1024, FAST_CALL = 0x80 };
enum { MATCHES = 1, OTHER_TYPE = 0, FAILED = -1 };

/* A kernel compiled for a signature. */
typedef struct {
    int32_t (*entry)(int64_t *words, int64_t *results);
    const int64_t *program; /* of the arguments */
    int64_t n_arguments;
    const char *results; /* a letter for each word of what it returns */
    const char *name;
} kernel;

static _Thread_local int out_of_memory;

static int read_scalar(int kind, object *value, void *native, int64_t *word) {
    const void *inside = (char *)value + sizeof(object); /* of one of NumPy's numbers */
    int from_numpy = value->type == native;
    *word = 0;
    switch (kind) {
    case 'd':
        if (from_numpy) { memcpy(word, inside, 8); return MATCHES; }
        double number = PyFloat_AsDouble(value);
        memcpy(word, &number, 8);
        return MATCHES;
    case 'l':
        if (from_numpy) { memcpy(word, inside, 8); return MATCHES; }
        *word = PyLong_AsLongLong(value);
        return *word == -1 && PyErr_Occurred() ? FAILED : MATCHES;
    case '?':
        *word = PyObject_IsTrue(value);
        return MATCHES;
    case 'b': case 'B': memcpy(word, inside, 1); return MATCHES;
    case 'h': case 'H': memcpy(word, inside, 2); return MATCHES;
    case 'i': case 'I': case 'f': memcpy(word, inside, 4); return MATCHES;
    default: memcpy(word, inside, 8); return MATCHES;
    }
}

static int read(const int64_t **program, object *value, int64_t **words) {
    const int64_t *step = *program;
    switch (step[0]) {
    case ARRAY: {
        array *a = (array *)value;
        if (value->type != (void *)step[1] || a->type->number != step[2] || a->ndim != step[3] ||
            (a->flags & step[4]) != step[5] || (a->type->order != '=' && a->type->order != '|'))
            return OTHER_TYPE;
        *(*words)++ = (int64_t)a->data;
        for (int k = 0; k < a->ndim; k++) *(*words)++ = a->shape[k];
        if (step[6])
            for (int k = 0; k < a->ndim; k++) *(*words)++ = a->strides[k];
        *program += 7;
        return MATCHES;
    }
    case TUPLE: {
        if (value->type != (void *)step[1] || PyTuple_Size(value) != step[2]) return OTHER_TYPE;
        *program += 3;
        for (int64_t k = 0; k < step[2]; k++) {
            int status = read(program, PyTuple_GetItem(value, k), words);
            if (status != MATCHES) return status;
        }
        return MATCHES;
    }
    case SCALAR:
        if (value->type != (void *)step[2] && value->type != (void *)step[3]) return OTHER_TYPE;
        *program += 4;
        return read_scalar((int)step[1], value, (void *)step[3], (*words)++);
    default:
        *program += 1;
        return value == &_Py_NoneStruct ? MATCHES : OTHER_TYPE;
    }
}

static object *number_of(char letter, int64_t word) {
    double real;
    switch (letter) {
    case 'f': memcpy(&real, &word, 8); return PyFloat_FromDouble(real);
    case '?': return PyBool_FromLong(word != 0);
    case 'u': return PyLong_FromUnsignedLongLong((unsigned long long)word);
    default: return PyLong_FromLongLong(word);
    }
}

static object *call(object *self, object *const *arguments, intptr_t n) {
    const kernel *k = PyCapsule_GetPointer(self, "kernel");
    int64_t words[LARGEST_CALL], results[LARGEST_CALL], *end = words;
    const int64_t *program = k->program;
    int status = n == k->n_arguments ? MATCHES : OTHER_TYPE;
    for (intptr_t i = 0; status == MATCHES && i < n; i++) status = read(&program, arguments[i], &end);
    if (status == FAILED) return NULL;
    if (status == OTHER_TYPE) { Py_IncRef(&_Py_NotImplementedStruct); return &_Py_NotImplementedStruct; }
    void *thread = PyEval_SaveThread();
    out_of_memory = 0;
    status = k->entry(words, results);
    int no_memory = out_of_memory;
    PyEval_RestoreThread(thread);
    if (status) {
        if (no_memory) return PyErr_NoMemory();
        PyErr_SetString(PyExc_RuntimeError, k->name);
        return NULL;
    }
    intptr_t n_results = (intptr_t)strlen(k->results);
    if (n_results == 0) { Py_IncRef(&_Py_NoneStruct); return &_Py_NoneStruct; }
    if (n_results == 1) return number_of(k->results[0], results[0]);
    object *all = PyTuple_New(n_results);
    for (intptr_t i = 0; all && i < n_results; i++) PyTuple_SetItem(all, i, number_of(k->results[i], results[i]));
    return all;
}

static method call_method = {"kernel", call, FAST_CALL, "A kernel compiled ahead."};

/* A Python function for a kernel, which must stay where it is. */
object *loglinear_function(kernel *k) {
    object *capsule = PyCapsule_New(k, "kernel", NULL);
    if (!capsule) return NULL;
    object *function = PyCFunction_NewEx(&call_method, capsule, NULL);
    Py_DecRef(capsule);
    return function;
}

/* What a call would read of an array of one dimension. */
void loglinear_fields(object *value, int64_t *fields) {
    array *a = (array *)value;
    fields[0] = (int64_t)a->data; fields[1] = a->ndim; fields[2] = a->shape[0]; fields[3] = a->strides[0];
    fields[4] = a->flags; fields[5] = a->type->number; fields[6] = a->type->order; fields[7] = (int64_t)value->type;
}

/* Memory of arrays that kernels make: counted, as Numba's code expects it (numba/core/runtime/nrt.h). */

typedef struct {
    size_t references;
    void (*destroy)(void *, size_t, void *);
    void *destroy_with;
    void *data;
    size_t size;
    void *allocator;
} memory;

void *NRT_MemInfo_alloc_aligned(size_t size, uint32_t align) {
    size_t beside = sizeof(memory) + 2 * (size_t)align;
    memory *made = size > SIZE_MAX - beside ? NULL : malloc(size + beside);
    if (!made) { out_of_memory = 1; return NULL; }
    uintptr_t begin = (uintptr_t)(made + 1);
    if (align) begin = (begin + align - 1) / align * align;
    *made = (memory){1, NULL, NULL, (void *)begin, size, NULL};
    return made;
}

void *NRT_MemInfo_alloc_safe_aligned(size_t size, uint32_t align) { return NRT_MemInfo_alloc_aligned(size, align); }

void NRT_MemInfo_call_dtor(memory *m) {
    if (m->destroy) m->destroy(m->data, m->size, m->destroy_with);
    free(m);
}

void loglinear_release(memory *m) {
    if (m && __atomic_sub_fetch(&m->references, 1, __ATOMIC_ACQ_REL) == 0) NRT_MemInfo_call_dtor(m);
}

/* The strides of an array after ``reshape`` in C order, without a copy; 0 if that cannot be done.

   Axes are taken in groups that hold as many elements before and after: the old axes of a group must follow each other
   in memory as in C order. */
int numba_attempt_nocopy_reshape(intptr_t n_old, const intptr_t *all_old, const intptr_t *all_strides, intptr_t n_new,
                                 const intptr_t *shape, intptr_t *strides, intptr_t size, int f_order) {
    enum { MOST_AXES = 64 };
    intptr_t old[MOST_AXES], old_strides[MOST_AXES], n = 0, from = 0, to = 0;
    if (f_order || n_old > MOST_AXES) return 0;
    for (intptr_t k = 0; k < n_old; k++)
        if (all_old[k] != 1) { old[n] = all_old[k]; old_strides[n++] = all_strides[k]; }
    while (to < n_new && from < n) {
        intptr_t end = from + 1, new_end = to + 1, before = old[from], after = shape[to];
        while (before != after) {
            if (after < before) {
                if (new_end == n_new) return 0;
                after *= shape[new_end++];
            } else {
                if (end == n) return 0;
                before *= old[end++];
            }
        }
        for (intptr_t k = from; k < end - 1; k++)
            if (old_strides[k] != old[k + 1] * old_strides[k + 1]) return 0;
        strides[new_end - 1] = old_strides[end - 1];
        for (intptr_t k = new_end - 1; k > to; k--) strides[k - 1] = strides[k] * shape[k];
        from = end;
        to = new_end;
    }
    for (intptr_t k = to; k < n_new; k++) strides[k] = to ? strides[to - 1] : size; /* axes of one element */
    return 1;
}
