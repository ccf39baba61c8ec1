struct Config { int rows, cols; float scale; double shift; short steps[3]; };
extern "C" __global__ void parameter_struct(Config config, const float *base, float *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < config.rows * config.cols) out[i] = base[i] * config.scale + config.steps[i % 3] + (float)config.shift;
}
