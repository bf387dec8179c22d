# Images for Multiboot loaders: 64-bit code without an operating system.
enable_language(ASM)

# ptah_add_image(NAME SOURCE...) makes one, linked by link.ld of the current folder, with what
# packets need to become text. There is no such target on other processors.
function(ptah_add_image name)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64)$")
    return()
  endif()
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/ REGEX "^(src|port)/")
  add_executable(${name} ${ARGN} ${CMAKE_SOURCE_DIR}/src/packet/decode.c
    ${CMAKE_SOURCE_DIR}/src/packet/format.c ${CMAKE_SOURCE_DIR}/src/packet/table.c
    ${CMAKE_SOURCE_DIR}/src/base/error.c)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/port
    LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/link.ld)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(${name} PRIVATE -ffreestanding -fno-builtin -fno-stack-protector
    -fno-pic -fno-asynchronous-unwind-tables -mno-red-zone -mgeneral-regs-only
    -fcf-protection=none -ffunction-sections -g0 -Os -fno-sanitize=all)
  target_link_options(${name} PRIVATE -nostdlib -static -fno-sanitize=all -Wl,--gc-sections
    -Wl,-z,max-page-size=4096 -Wl,--build-id=none -Wl,--no-warn-rwx-segments
    -T ${CMAKE_CURRENT_SOURCE_DIR}/link.ld)
endfunction()
