"""The bounds of a priority: a signed whole number of 32 bits, as in Kubernetes and YuniKorn."""

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
