// The part of the driver's header that kernels use; NVRTC cannot compile the host functions of the original.
#pragma once
#define CUDA_VERSION CUDART_VERSION
typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st* CUstream;
typedef int CUdevice;
