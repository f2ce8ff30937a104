/* A Python extension that leaks: records.parse keeps 4 KiB of each record. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

__attribute__((noinline)) static char *record_copy(const char *text, Py_ssize_t len)
{
    char *copy = malloc((size_t)len + 1);

    return copy ? memcpy(copy, text, (size_t)len + 1) : NULL;
}

static PyObject *records_parse(PyObject *self, PyObject *args)
{
    const char *text;
    Py_ssize_t len;

    (void)self;
    if (!PyArg_ParseTuple(args, "s#", &text, &len))
        return NULL;
    return PyBool_FromLong(record_copy(text, len) != NULL);
}

static PyMethodDef methods[] = {{"parse", records_parse, METH_VARARGS, "Leaks."}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "records",
                                    .m_methods = methods};

PyMODINIT_FUNC PyInit_records(void);
PyMODINIT_FUNC PyInit_records(void)
{
    return PyModule_Create(&module);
}
