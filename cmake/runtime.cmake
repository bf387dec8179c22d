# The runtime of the recorder native: code that runs inside the recorded program.
enable_language(ASM)
include(CheckCCompilerFlag)
# gcc makes a table of addresses of a switch that returns strings.
check_c_compiler_flag(-fno-tree-switch-conversion PTAH_HAS_NO_SWITCH_CONVERSION)
if(PTAH_HAS_NO_SWITCH_CONVERSION)
  set(PTAH_RUNTIME_NO_TABLES -fno-tree-switch-conversion)
endif()
# clang reads the addresses of what other files define from a table.
check_c_compiler_flag(-fdirect-access-external-data PTAH_HAS_DIRECT_ACCESS)
if(PTAH_HAS_DIRECT_ACCESS)
  list(APPEND PTAH_RUNTIME_NO_TABLES -fdirect-access-external-data)
endif()
set(PTAH_RUNTIME_FOLDER ${CMAKE_SOURCE_DIR}/src/record/native)

# ptah_add_runtime(NAME SOURCE...) links the sources to one blob that runs wherever it is put:
# ${CMAKE_BINARY_DIR}/runtime/NAME.bin, which begins with the function start(). NAME_OBJECT in the
# caller is a source file with its bytes: inject_NAME and inject_NAME_end (src/record/native/blob.S).
# runtime.ld refuses what would have to be relocated, or be written to. NAME itself is an ELF file
# for debuggers.
#
# -fpie rather than -fPIC: it lets the compiler take every symbol for one of the same file, so that
# there is no table of addresses (GOT).
function(ptah_add_runtime name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES LINK_DEPENDS ${PTAH_RUNTIME_FOLDER}/runtime.ld
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/runtime POSITION_INDEPENDENT_CODE OFF)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -ffreestanding -fno-stack-protector -fpie
    -fvisibility=hidden -mgeneral-regs-only -fcf-protection=none -fno-asynchronous-unwind-tables
    -ffunction-sections ${PTAH_RUNTIME_NO_TABLES} -fno-sanitize=all -O2)
  target_link_options(${name} PRIVATE -nostdlib -fno-sanitize=all -pie -Wl,--no-dynamic-linker
    -Wl,-z,text -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,noexecstack
    -Wl,--no-warn-rwx-segments
    -T ${PTAH_RUNTIME_FOLDER}/runtime.ld)
  set(blob ${CMAKE_BINARY_DIR}/runtime/${name}.bin)
  add_custom_command(OUTPUT ${blob} DEPENDS ${name}
    COMMAND ${CMAKE_OBJCOPY} -O binary -j .blob $<TARGET_FILE:${name}> ${blob})
  string(REPLACE "-" "_" symbol ${name})
  set(source ${CMAKE_BINARY_DIR}/runtime/${name}.S)
  file(CONFIGURE OUTPUT ${source} CONTENT
    "#define BLOB inject_@symbol@\n#define BLOB_END inject_@symbol@_end\n#define BLOB_FILE \"@blob@\"\n#include \"record/native/blob.S\"\n"
    @ONLY)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${blob})
  set(${name}_OBJECT ${source} PARENT_SCOPE)
endfunction()
