"""PTX that NVRTC compiled from CUDA C++."""
