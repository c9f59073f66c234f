// Whether small memory is kept for its next use. Not under sanitizers: they are to see every use of
// memory that is gone, and of the bytes around it.
#pragma once

namespace elastripe {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ELASTRIPE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ELASTRIPE_SANITIZED 1
#endif
#endif

#ifdef ELASTRIPE_SANITIZED
inline constexpr bool kReusesMemory = false;
#else
inline constexpr bool kReusesMemory = true;
#endif

}  // namespace elastripe
