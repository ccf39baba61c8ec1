// What kernels use of the driver's header; NVRTC refuses the host functions of the real one.
#pragma once
typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st* CUstream;
typedef int CUdevice;
