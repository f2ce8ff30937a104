#include "contents/class_names.h"
#include "elf/image.h"

#include <stdio.h>
#include <string.h>

/* ---- places ---- */

enum { LOWEST = 1 << 16 }; /* vm.mmap_min_addr */

bool places_init(struct places *places, struct memory *memory, const struct modules *modules)
{
    *places = (struct places){memory, modules, NULL};
    places->ends = calloc(modules->count ? modules->count : 1, sizeof *places->ends);
    return places->ends != NULL;
}

void places_free(struct places *places)
{
    free(places->ends);
}

/* The end of its last segment, .bss included; its end in the file if there are no headers. */
static remote_addr find_module_end(struct memory *memory, const struct module *module)
{
    struct image image;
    remote_addr end = module->end;

    if (!image_open(&image, memory, module->start))
        return end;
    for (size_t i = 0; i < image.phdr_count; i++) {
        const Elf64_Phdr *phdr = &image.phdrs[i];
        remote_addr last = image.bias + phdr->p_vaddr + phdr->p_memsz;
        if (phdr->p_type == PT_LOAD && last > end)
            end = last;
    }
    return end;
}

/* The part of .bss that is in no page of the file is an anonymous mapping right behind it. */
static int module_of_bss(struct places *places, const struct vma *vma, remote_addr addr)
{
    const struct vma *before = vma - 1;
    size_t index;

    if (vma == places->modules->vmas || before->module < 0 || before->end != vma->start)
        return PLACE_MEMORY;
    index = (size_t)before->module;
    if (!places->ends[index])
        places->ends[index] =
            find_module_end(places->memory, &places->modules->list[before->module]);
    return addr < places->ends[index] ? before->module : PLACE_MEMORY;
}

int places_at(struct places *places, remote_addr addr)
{
    const struct vma *vma = addr >= LOWEST ? modules_vma_at(places->modules, addr) : NULL;

    if (!vma || !vma->prot)
        return PLACE_NOWHERE;
    return vma->module >= 0 ? vma->module : module_of_bss(places, vma, addr);
}

/* ---- classes ---- */

/* Bytes between the start of an object and a base of it with a vtable of its own. */
enum { OFFSET_MAX = 16 << 20 };

struct vtable_head {
    int64_t offset_to_top;
    remote_addr typeinfo;
};

struct typeinfo {
    remote_addr vtable, name;
};

static bool is_in_module(struct places *places, remote_addr addr)
{
    return places_at(places, addr) >= 0;
}

static bool read_typeinfo(struct places *places, remote_addr at, struct typeinfo *typeinfo)
{
    return at % 8 == 0 && is_in_module(places, at) &&
           memory_read(places->memory, at, typeinfo, sizeof *typeinfo) &&
           is_in_module(places, typeinfo->name);
}

static bool read_vtable_head(struct places *places, remote_addr address_point,
                             struct vtable_head *head)
{
    return address_point % 8 == 0 &&
           memory_read(places->memory, address_point - sizeof *head, head, sizeof *head) &&
           head->offset_to_top <= 0 && head->offset_to_top >= -OFFSET_MAX;
}

/* The name of a type in an unnamed namespace, or a local one, begins with a star in GCC's code. */
static const char *read_type_name(struct places *places, remote_addr at, char name[CLASS_NAME_MAX])
{
    ssize_t len = memory_read_string(places->memory, at, name, CLASS_NAME_MAX);

    return len < 1 ? NULL : name[0] == '*' ? name + 1 : name;
}

/* The classes of typeinfo objects of classes: without a base, with one, with several. */
static bool read_family(struct places *places, remote_addr vtable)
{
    char text[CLASS_NAME_MAX];
    struct vtable_head head;
    struct typeinfo typeinfo;
    const char *name;

    if (!is_in_module(places, vtable) || !read_vtable_head(places, vtable, &head) ||
        !read_typeinfo(places, head.typeinfo, &typeinfo))
        return false;
    name = read_type_name(places, typeinfo.name, text);
    return name && (strcmp(name, "N10__cxxabiv117__class_type_infoE") == 0 ||
                    strcmp(name, "N10__cxxabiv120__si_class_type_infoE") == 0 ||
                    strcmp(name, "N10__cxxabiv121__vmi_class_type_infoE") == 0);
}

static bool is_family(struct class_names *classes, remote_addr vtable)
{
    for (size_t i = 0; i < classes->proven_count; i++)
        if (classes->proven[i] == vtable)
            return true;
    if (!read_family(classes->places, vtable))
        return false;
    if (classes->proven_count < CLASS_FAMILIES)
        classes->proven[classes->proven_count++] = vtable;
    return true;
}

const char *class_names_demangle(struct class_names *classes, const char *symbol)
{
    const char *text = reader_demangle(&classes->demangler, symbol);

    return arena_string(classes->arena, text, strnlen(text, CLASS_TEXT_MAX));
}

/* The demangler knows the name of a type only as a part of a symbol. */
static const char *demangle_type(struct class_names *classes, const char *name)
{
    static const char before[] = "typeinfo name for ";
    char symbol[CLASS_NAME_MAX + 8];
    const char *text;

    snprintf(symbol, sizeof symbol, "_ZTS%s", name);
    text = class_names_demangle(classes, symbol);
    return text && strncmp(text, before, sizeof before - 1) == 0 ? text + sizeof before - 1 : NULL;
}

const char *class_names_find(struct class_names *classes, remote_addr address_point)
{
    char text[CLASS_NAME_MAX];
    struct vtable_head head;
    struct typeinfo typeinfo;
    const char *name;

    if (!read_vtable_head(classes->places, address_point, &head) ||
        !read_typeinfo(classes->places, head.typeinfo, &typeinfo) ||
        !is_family(classes, typeinfo.vtable))
        return NULL;
    name = read_type_name(classes->places, typeinfo.name, text);
    return name ? demangle_type(classes, name) : NULL;
}

/* ---- Python ---- */

/* The start of a type (Include/cpython/object.h): PyObject_VAR_HEAD and tp_name. */
struct python_type {
    uint64_t references;
    remote_addr type;
    uint64_t size;
    remote_addr name;
};

/* Types of the program's own classes are in no module, and are not read. */
static bool read_python_type(struct places *places, remote_addr at, struct python_type *type,
                             char name[PYTHON_NAME_MAX])
{
    return at % 8 == 0 && is_in_module(places, at) &&
           memory_read(places->memory, at, type, sizeof *type) &&
           is_in_module(places, type->name) &&
           memory_read_string(places->memory, type->name, name, PYTHON_NAME_MAX) > 0;
}

const char *class_names_python(struct class_names *classes, remote_addr at)
{
    char name[PYTHON_NAME_MAX], meta_name[PYTHON_NAME_MAX], text[PYTHON_NAME_MAX + 16];
    struct python_type type, meta;

    /* A type's type is a type, and that of all is its own: "type". */
    if (!read_python_type(classes->places, at, &type, name) ||
        !read_python_type(classes->places, type.type, &meta, meta_name) || meta.type != type.type ||
        strcmp(meta_name, "type") != 0)
        return NULL;
    snprintf(text, sizeof text, "%s (Python)", name);
    return arena_string(classes->arena, text, strlen(text));
}
