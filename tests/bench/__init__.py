"""Benchmarks; kernels come from the cache, as in the service."""

from service.kernel_cache import use_kernel_cache

use_kernel_cache()
