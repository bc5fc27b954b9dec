// A program may have the vendor's runtime linked in. If its symbol table has the runtime's functions, jumps to this
// library replace them before any code of the program runs.
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

inline int first_base(dl_phdr_info *info, size_t, void *found) {
    *static_cast<uint64_t *>(found) = info->dlpi_addr;
    return 1;
}

inline void replace_all(const char *file, size_t size, void *library) {
    auto head = reinterpret_cast<const Elf64_Ehdr *>(file);
    if (size < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64) return;
    if (!head->e_shoff || head->e_shoff + uint64_t(head->e_shnum) * sizeof(Elf64_Shdr) > size) return;
    auto sections = reinterpret_cast<const Elf64_Shdr *>(file + head->e_shoff);
    uint64_t base = 0;
    dl_iterate_phdr(first_base, &base);
    for (int at = 0; at < head->e_shnum; at++) {
        const Elf64_Shdr &table = sections[at];
        if (table.sh_type != SHT_SYMTAB || table.sh_offset + table.sh_size > size) continue;
        const Elf64_Shdr &texts = sections[table.sh_link];
        auto symbols = reinterpret_cast<const Elf64_Sym *>(file + table.sh_offset);
        for (size_t one = 0; one < table.sh_size / sizeof(Elf64_Sym); one++) {
            const Elf64_Sym &symbol = symbols[one];
            const char *name = file + texts.sh_offset + symbol.st_name;
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !symbol.st_value || symbol.st_size < JUMP_BYTES) continue;
            if (strncmp(name, "cuda", 4) && strncmp(name, "__cuda", 6)) continue;
            if (void *ours = dlsym(library, name)) replace(base + symbol.st_value, ours);
        }
    }
}

__attribute__((constructor)) inline void replace_runtime() {
    Dl_info here;
    if (!getenv(DESCRIPTOR) || !dladdr(reinterpret_cast<void *>(&replace_runtime), &here)) return;
    void *library = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (!library || file < 0 || fstat(file, &status)) return;
    void *bytes = mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED) return;
    const char *const names[] = {"libcudart.so.12", "libcudart.so.11", "cudaGetDeviceProperties_v2"};
    for (const char *name : names)
        older_ |= memmem(bytes, status.st_size, name, strlen(name)) != nullptr;
    replace_all(static_cast<const char *>(bytes), status.st_size, library);
    munmap(bytes, status.st_size);
}

} // namespace tilewright
