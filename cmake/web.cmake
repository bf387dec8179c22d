# Writes the files of a folder as C arrays: the table view_files of src/view/web.h.
#   cmake -DFOLDER=src/view/web -DOUTPUT=web_files.c -P cmake/web.cmake
# Of scripts and style sheets it also computes the hash by which a Content-Security-Policy allows
# them inside of a page: SHA-256 in base64.

set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)

# Six hexadecimal digits are four of base64. SHA-256 has 64: the last group gets two zeros, and the
# digit that stands for them alone becomes =.
function(hex_to_base64 hex result)
  set(text)
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}00" ${at} 6 group)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${group} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${index} 1 digit)
      string(APPEND text ${digit})
    endforeach()
  endforeach()
  string(SUBSTRING ${text} 0 43 text)
  set(${result} ${text}= PARENT_SCOPE)
endfunction()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB files ${FOLDER}/*.html ${FOLDER}/*.css ${FOLDER}/*.js ${FOLDER}/*.svg)
set(arrays)
set(rows)
set(number 0)
foreach(file ${files})
  cmake_path(GET file FILENAME name)
  cmake_path(GET file EXTENSION LAST_ONLY extension)
  string(SUBSTRING ${extension} 1 -1 extension)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "([^\n]......................................................................\
.........)" "\\1\n" bytes "${bytes}")
  file(SHA256 ${file} hash)
  hex_to_base64(${hash} hash)
  file(SIZE ${file} size)
  string(APPEND arrays "static const unsigned char bytes_${number}[] = {\n${bytes}0};\n")
  string(APPEND rows "\t{\"${name}\", \"${type_${extension}}\", \"${hash}\", bytes_${number}, ${size}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "/* Written by cmake/web.cmake. */\n#include \"view/web.h\"\n\n${arrays}\n\
const struct view_file view_files[] = {\n${rows}\t{NULL, NULL, NULL, NULL, 0},\n};\n")
