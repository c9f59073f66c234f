// TRY(expression): the value of a Result; an error is returned from the function around it.
#pragma once

#include <expected>
#include <utility>

#define ELASTRIPE_TRY(result, ...)                                  \
  ({                                                                \
    auto result = (__VA_ARGS__);                                    \
    if (!result) return std::unexpected(std::move(result).error()); \
    *std::move(result);                                             \
  })
#define ELASTRIPE_TRY_NAMED(counter, ...) ELASTRIPE_TRY(result_##counter, __VA_ARGS__)
#define ELASTRIPE_TRY_COUNTED(counter, ...) ELASTRIPE_TRY_NAMED(counter, __VA_ARGS__)
#define TRY(...) ELASTRIPE_TRY_COUNTED(__COUNTER__, __VA_ARGS__)
