# Runs at the start of an installation, with these set:
#
#   folders    where files will be; relative ones are below the prefix
#   manifest   the list of the former installation from this build
#
# The list is of the place $DESTDIR. Adds to this installation's list the folders that it or the former one has made, for
# packaging/uninstall.cmake.
cmake_policy(VERSION 3.22)
set(place "")
if(EXISTS "${manifest}.place")
  file(READ "${manifest}.place" place)
endif()
file(WRITE "${manifest}.place" "$ENV{DESTDIR}")
if(EXISTS "${manifest}" AND place STREQUAL "$ENV{DESTDIR}")
  file(STRINGS "${manifest}" former)
  foreach(entry IN LISTS former)
    if(IS_DIRECTORY "$ENV{DESTDIR}${entry}")
      list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${entry}")
    endif()
  endforeach()
endif()
foreach(above IN LISTS folders)
  cmake_path(ABSOLUTE_PATH above BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" NORMALIZE)
  set(made "")
  while(NOT above STREQUAL "/" AND NOT EXISTS "$ENV{DESTDIR}${above}")
    set(made "${above}")
    cmake_path(GET above PARENT_PATH above)
  endwhile()
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${made})
endforeach()
