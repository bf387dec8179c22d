# The functions that define a test. A test belongs to a layer: the folder in which its file lies.

# What every test finds in its environment.
set(ptah_test_environment
  "PTAH=${CMAKE_BINARY_DIR}/bin/ptah"
  "PTAH_SOURCE=${CMAKE_SOURCE_DIR}"
  "PTAH_BUILD=${CMAKE_BINARY_DIR}"
  "PTAH_SHARED=${PTAH_SHARED}"
  "PTAH_SANITIZE=${PTAH_SANITIZE}"
  "CC=${CMAKE_C_COMPILER}")
if(TARGET libipt)
  list(APPEND ptah_test_environment "LIBIPT=${LIBIPT_LIBRARY}")
endif()

# What ThreadSanitizer looks at: the tests that have threads, and what they run.
add_custom_target(thread-tests DEPENDS ptah-cli ptah-qemu)

# ptah_add_test(FILE ...) makes the test <layer>-<name> of FILE, which is a cmocka program
# (test_*.c) or a shell test (*.sh).
#   LAYER         it is of the layer as a whole, or of a rule that several files keep; without this,
#                 it is the test of the file whose name it has (tests/lint/names.sh sees to that)
#   ONCE          one build is enough, the release: it is about files and not about what a compiler
#                 made of them, or most of its time goes to perf, libipt or other programs, over
#                 code that other tests run where sanitizers are built in
#   THREADS       ThreadSanitizer looks at it as well
#   COST seconds  about how long it takes with sanitizers: the longest begin first, so that none
#                 of them runs alone at the end. What takes less than three needs none
# and for a program:
#   NEEDS         targets that may be absent; without one of them the test is left out
#   SOURCES, INCLUDES, DEFINITIONS, LIBRARIES, DEPENDS
function(ptah_add_test file)
  cmake_parse_arguments(PARSE_ARGV 1 test "LAYER;ONCE;THREADS" "COST"
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
    set(timeout 600)
  else()
    foreach(need ${test_NEEDS})
      if(NOT TARGET ${need})
        message(STATUS "no ${need}: ${target} is left out")
        return()
      endif()
    endforeach()
    add_executable(${target} ${file} ${test_SOURCES})
    set_target_properties(${target} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_include_directories(${target} PRIVATE ${test_INCLUDES} ${CMAKE_SOURCE_DIR}/src
      ${CMAKE_SOURCE_DIR}/tests)
    target_compile_definitions(${target} PRIVATE ${test_DEFINITIONS})
    target_link_libraries(${target} PRIVATE ${test_LIBRARIES} test-worlds ptah-static
      PkgConfig::CMOCKA)
    if(test_DEPENDS)
      add_dependencies(${target} ${test_DEPENDS})
    endif()
    set(command ${target})
    set(labels unit)
    set(timeout 300)
  endif()

  if(test_ONCE)
    list(APPEND labels once)
  endif()
  if(test_THREADS)
    list(APPEND labels threads)
    add_dependencies(thread-tests ${target})
  endif()
  add_test(NAME ${target} COMMAND ${command} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_tests_properties(${target} PROPERTIES TIMEOUT ${timeout} SKIP_RETURN_CODE 77
    LABELS "${labels}" ENVIRONMENT "${ptah_test_environment}")
  if(test_COST)
    set_tests_properties(${target} PROPERTIES COST ${test_COST})
  endif()
endfunction()

# ptah_add_tests(...) makes a test of every test_*.c and *.sh of the folder that ptah_add_test()
# has not been called for; its arguments are those of ptah_add_test(). common.sh is what shell
# tests share.
function(ptah_add_tests)
  get_property(done DIRECTORY PROPERTY ptah_tests)
  file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS test_*.c *.sh)
  list(REMOVE_ITEM files common.sh ${done})
  foreach(file ${files})
    ptah_add_test(${file} ${ARGN})
  endforeach()
endfunction()

# A program that tests run, in the folder of the tests.
function(ptah_add_test_helper name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ptah-static)
endfunction()
