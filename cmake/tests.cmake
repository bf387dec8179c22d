# The functions that define a test. A test belongs to the layer that its folder is named for.

# The environment variables that every test gets. CC compiles the programs that tests record, PTAH_CC
# what is linked with the library. No test asks the debuginfod servers of whoever runs it.
set(PTAH_TEST_CC "${CMAKE_C_COMPILER}" CACHE STRING "The compiler of the programs that tests record")
set(ptah_test_environment
  "PTAH=${CMAKE_BINARY_DIR}/bin/ptah"
  "PTAH_SOURCE=${CMAKE_SOURCE_DIR}"
  "PTAH_BUILD=${CMAKE_BINARY_DIR}"
  "PTAH_SHARED=${PTAH_SHARED}"
  "PTAH_SANITIZE=${PTAH_SANITIZE}"
  "DEBUGINFOD_URLS="
  "CC=${PTAH_TEST_CC}"
  "PTAH_CC=${CMAKE_C_COMPILER}")
if(TARGET libipt)
  list(APPEND ptah_test_environment "LIBIPT=${LIBIPT_LIBRARY}")
endif()

# Everything that the preset "tsan" needs: the tests with threads, and the plugin that they load.
add_custom_target(thread-tests DEPENDS ptah-qemu)

# What scripts/check builds with sanitizers: all tests but those of the fuzzers' seeds,
# and what tests run. Benchmarks, examples and fuzzers with gcc's driver are built for the release.
add_custom_target(checked-tests DEPENDS ptah ptah-static ptah-cli ptah-qemu ptah-system ptah-engine
  ptah-model ptah-libipt ptah-drpttracer ptah-bare ptah-port-null fuzz-seeds)

# ptah_add_test(FILE ...) makes the test <layer>-<name> of FILE, which is a cmocka program
# (test_*.c) or a shell test (*.sh).
#   LAYER         the test is of a rule that several files of the layer keep. A test without this
#                 word is of the file whose name it has (checked by tests/lint/names.sh)
#   ONCE          scripts/check runs the test in the release build instead of the build with
#                 sanitizers, because it looks at files rather than at compiled code, or because it
#                 spends most of its time in perf, libipt or another program and other tests run the
#                 same code with sanitizers
#   BOTH          scripts/check runs the test in both builds, because sanitizers leave a part of it out
#   NIGHTLY       scripts/check --nightly runs the test, and nothing else does: CONTRIBUTING.md, "What
#                 runs at night", says why
#   ALONE         no other test runs meanwhile, because threads of the test have to run at the same
#                 time
#   THREADS       scripts/check runs the test with ThreadSanitizer as well
#   COST seconds  about how much CPU time the test takes with sanitizers (ONCE: without). ctest starts
#                 the longest first, so that none of them runs alone at the end. Below 8 it is left out.
#                 A program without this word is compiled with PTAH_TEST_FLAGS, except if it is
#   OPTIMIZED     the test counts the instructions of its own code. It is ONCE, too
# and for a program:
#   NEEDS         targets that may not exist; the test is left out unless all of them do
#   SOURCES, INCLUDES, DEFINITIONS, LIBRARIES, DEPENDS
function(ptah_add_test file)
  cmake_parse_arguments(PARSE_ARGV 1 test "ALONE;BOTH;LAYER;NIGHTLY;ONCE;OPTIMIZED;THREADS" "COST"
    "NEEDS;SOURCES;INCLUDES;DEFINITIONS;LIBRARIES;DEPENDS")
  if(test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${file}: what is ${test_UNPARSED_ARGUMENTS}?")
  endif()
  cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE path)
  cmake_path(GET path PARENT_PATH layer)
  cmake_path(GET layer FILENAME layer)
  cmake_path(GET file STEM name)
  set(target ${layer}-${name})
  set_property(DIRECTORY APPEND PROPERTY ptah_tests ${file})

  if(file MATCHES "\\.sh$")
    set(command sh ${CMAKE_SOURCE_DIR}/tests/run-script ${path} ${CMAKE_BINARY_DIR}/tests/${target})
    set(labels ${layer})
  else()
    foreach(need ${test_NEEDS})
      if(NOT TARGET ${need})
        message(STATUS "no ${need}: ${target} is left out")
        return()
      endif()
    endforeach()
    add_executable(${target} ${file} ${test_SOURCES})
    add_dependencies(checked-tests ${target})
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_include_directories(${target} PRIVATE ${test_INCLUDES} ${CMAKE_SOURCE_DIR}/src
      ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${target} PRIVATE ${test_DEFINITIONS})
    if(NOT test_COST AND NOT test_OPTIMIZED)
      target_compile_options(${target} PRIVATE ${PTAH_TEST_FLAGS})
    endif()
    target_link_libraries(${target} PRIVATE ${test_LIBRARIES} test-worlds ptah-static
      PkgConfig::CMOCKA)
    target_link_options(${target} PRIVATE ${PTAH_TEST_LINKER})
    if(test_DEPENDS)
      add_dependencies(${target} ${test_DEPENDS})
    endif()
    set(command $<TARGET_FILE:${target}>)
    set(labels unit)
  endif()

  if(test_ONCE OR test_OPTIMIZED)
    list(APPEND labels once)
  elseif(test_BOTH)
    list(APPEND labels both)
  elseif(TARGET ${target})
    set_property(GLOBAL APPEND PROPERTY ptah_sanitized_tests ${target})
  endif()
  if(test_NIGHTLY)
    list(APPEND labels nightly)
  endif()
  if(test_THREADS)
    list(APPEND labels threads)
    add_dependencies(thread-tests ${target})
  endif()
  # A test waits for what must happen without a limit of its own; tests/limit ends one that hangs,
  # and shows where. ctest's own limit is there in case tests/limit hangs.
  add_test(NAME ${target} COMMAND sh ${CMAKE_SOURCE_DIR}/tests/limit ${target} ${command}
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_tests_properties(${target} PROPERTIES TIMEOUT 1500 SKIP_RETURN_CODE 77
    LABELS "${labels}" ENVIRONMENT "${ptah_test_environment}")
  if(test_ALONE)
    set_tests_properties(${target} PROPERTIES RUN_SERIAL ON)
  endif()
  if(test_COST)
    set_tests_properties(${target} PROPERTIES COST ${test_COST})
  endif()
endfunction()

# ptah_add_tests(...) calls ptah_add_test() with the same arguments for every test_*.c and *.sh of
# the folder that has no test yet. common.sh is not a test: the shell tests source it.
function(ptah_add_tests)
  get_property(done DIRECTORY PROPERTY ptah_tests)
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS test_*.c *.sh)
  list(REMOVE_ITEM files common.sh ${done})
  foreach(file ${files})
    ptah_add_test(${file} ${ARGN})
  endforeach()
endfunction()

# Builds a program that tests run, in the same folder as the tests.
function(ptah_add_test_helper name)
  add_executable(${name} ${ARGN})
  add_dependencies(checked-tests ${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ptah-static)
endfunction()

# Every target of a folder and the folders below it that is built if none is named.
function(ptah_all_targets folder result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(excluded ${target} EXCLUDE_FROM_ALL)
    if(type STREQUAL "UTILITY" OR excluded)
      list(REMOVE_ITEM targets ${target})
    endif()
  endforeach()
  foreach(below ${folders})
    ptah_all_targets(${below} more)
    list(APPEND targets ${more})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()

# The target once-tests: what scripts/check builds for the release, which is everything but the test
# programs that it runs with sanitizers. tests/compat/programs.sh runs two of those.
function(ptah_add_once_tests)
  get_property(sanitized GLOBAL PROPERTY ptah_sanitized_tests)
  list(REMOVE_ITEM sanitized packet-test_libipt event-test_libipt)
  ptah_all_targets(${CMAKE_SOURCE_DIR} targets)
  list(REMOVE_ITEM targets ${sanitized})
  add_custom_target(once-tests DEPENDS ${targets})
endfunction()
