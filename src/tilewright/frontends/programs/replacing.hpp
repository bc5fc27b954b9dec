// A program and its shared libraries may have the vendor's runtime linked in. If their symbol tables have the runtime's
// functions, jumps to this library replace them before any code of the program runs. A library may have registered its
// kernels before, with the vendor's runtime; it registers them again.
//
// Source: System V ABI, "Object Files"; Intel SDM, MOV and JMP; Arm ARM, LDR (literal) and BR.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>

namespace tilewright {

#if defined(__x86_64__)
constexpr size_t JUMP_BYTES = 12;
inline void put_jump(unsigned char *at, uint64_t target) {
    const unsigned char move[2] = {0x48, 0xb8}, jump[2] = {0xff, 0xe0};
    memcpy(at, move, 2), memcpy(at + 2, &target, 8), memcpy(at + 10, jump, 2);
}
#elif defined(__aarch64__)
constexpr size_t JUMP_BYTES = 16;
inline void put_jump(unsigned char *at, uint64_t target) {
    const uint32_t code[2] = {0x58000050, 0xd61f0200}; // ldr x16, 8 bytes on; br x16
    memcpy(at, code, 8), memcpy(at + 8, &target, 8);
    __builtin___clear_cache(reinterpret_cast<char *>(at), reinterpret_cast<char *>(at) + JUMP_BYTES);
}
#endif

inline void replace(uint64_t address, void *target) {
    uint64_t page = sysconf(_SC_PAGESIZE), first = address / page * page;
    uint64_t size = (address + JUMP_BYTES - first + page - 1) / page * page;
    void *pages = reinterpret_cast<void *>(first);
    if (mprotect(pages, size, PROT_READ | PROT_WRITE | PROT_EXEC)) lost("the program's own runtime cannot be replaced");
    put_jump(reinterpret_cast<unsigned char *>(address), reinterpret_cast<uint64_t>(target));
    mprotect(pages, size, PROT_READ | PROT_EXEC);
}

// Replaces the runtime's functions in an object that is loaded at `base`, and returns how many.
inline int replace_all(const char *file, size_t size, uint64_t base, void *library, bool registers) {
    auto head = reinterpret_cast<const Elf64_Ehdr *>(file);
    if (size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG)) return 0;
    if (head->e_ident[EI_CLASS] != ELFCLASS64) return 0;
    if (!head->e_shoff || head->e_shoff + uint64_t(head->e_shnum) * sizeof(Elf64_Shdr) > size) return 0;
    auto sections = reinterpret_cast<const Elf64_Shdr *>(file + head->e_shoff);
    int replaced = 0;
    for (int at = 0; at < head->e_shnum; at++) {
        const Elf64_Shdr &table = sections[at];
        if (table.sh_type != SHT_SYMTAB || table.sh_offset + table.sh_size > size) continue;
        const Elf64_Shdr &texts = sections[table.sh_link];
        auto symbols = reinterpret_cast<const Elf64_Sym *>(file + table.sh_offset);
        auto end = symbols + table.sh_size / sizeof(Elf64_Sym);
        auto is_function = [](const Elf64_Sym &one) { return ELF64_ST_TYPE(one.st_info) == STT_FUNC && one.st_value; };
        for (auto symbol = symbols; symbol < end; symbol++) {
            const char *name = file + texts.sh_offset + symbol->st_name;
            if (!is_function(*symbol) || symbol->st_size < JUMP_BYTES) continue;
            if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6)) continue;
            if (void *ours = dlsym(library, name)) replace(base + symbol->st_value, ours), replaced++;
        }
        for (auto symbol = symbols; registers && replaced && symbol < end; symbol++)
            if (is_function(*symbol) && strstr(file + texts.sh_offset + symbol->st_name, "__sti____cudaRegisterAll"))
                reinterpret_cast<void (*)()>(base + symbol->st_value)();
    }
    return replaced;
}

// This library, and the objects that were looked at.
struct Looked {
    void *library;
    uint64_t bases[1024];
    int count;
};

inline Looked looked_;

inline int replace_in(dl_phdr_info *info, size_t, void *) {
    Looked &all = looked_;
    const bool program = !info->dlpi_name[0];
    for (int at = 0; at < all.count; at++)
        if (all.bases[at] == info->dlpi_addr) return 0;
    if (all.count == sizeof all.bases / sizeof *all.bases) return 0;
    all.bases[all.count++] = info->dlpi_addr;
    int file = open(program ? "/proc/self/exe" : info->dlpi_name, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0) return 0; // the kernel's own
    void *bytes = fstat(file, &status) ? MAP_FAILED : mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED) return 0;
    auto text = static_cast<const char *>(bytes);
    const int replaced = replace_all(text, status.st_size, info->dlpi_addr, all.library, !program);
    const char *const names[] = {"libcudart.so.12", "libcudart.so.11", "cudaGetDeviceProperties_v2"};
    for (const char *name : names)
        older_ |= (program || replaced) && memmem(bytes, status.st_size, name, strlen(name));
    munmap(bytes, status.st_size);
    return 0;
}

__attribute__((constructor)) inline void replace_runtime() {
    Dl_info here;
    if (!getenv(DESCRIPTOR) || !dladdr(reinterpret_cast<void *>(&replace_runtime), &here)) return;
    looked_.library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    looked_.bases[looked_.count++] = reinterpret_cast<uint64_t>(here.dli_fbase);
    if (looked_.library) dl_iterate_phdr(replace_in, nullptr);
}

using Opens = void *(*)(const char *, int) noexcept;
inline Opens dlopen_;

// Opens a library, and replaces the runtime in what was loaded.
inline void *opened(const char *path, int mode) noexcept {
    void *found = dlopen_(path, mode);
    if (found) dl_iterate_phdr(replace_in, nullptr);
    return found;
}

} // namespace tilewright

// A name without a path is searched in the folders of the caller's own file. So that call must remain the caller's: it
// is a jump, which only optimised code has.
extern "C" __attribute__((optimize("O2"))) void *dlopen(const char *file, int mode) noexcept {
    if (!tilewright::dlopen_) tilewright::dlopen_ = reinterpret_cast<tilewright::Opens>(dlsym(RTLD_NEXT, "dlopen"));
    if (file && strchr(file, '/') && tilewright::looked_.library) return tilewright::opened(file, mode);
    return tilewright::dlopen_(file, mode);
}
