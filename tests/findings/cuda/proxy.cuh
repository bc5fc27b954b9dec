// The fence between stores and what copies and products read.

#pragma once

#define FENCE_PROXY asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
