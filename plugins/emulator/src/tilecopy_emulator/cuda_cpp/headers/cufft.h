// The numbers of cuFFT, which kernels use; its functions are only for the host.
#pragma once
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef float2 cuComplex, cufftComplex;
typedef double2 cuDoubleComplex, cufftDoubleComplex;
