// Names that nvcc's implicit <cuda_runtime.h> and the C library define in every .cu file, but NVRTC does not.
#pragma once
#include <cuda/std/cfloat>
#include <cuda/std/climits>
#include <cuda/std/cstdint>
#include "math.h"
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long off_t;
typedef long ssize_t;
