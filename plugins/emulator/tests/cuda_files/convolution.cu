#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>

#define FILTER_RADIUS 1
#define FILTER_SIZE   (2 * FILTER_RADIUS + 1)
#define MIN(a, b) ((a) < (b) ? (a) : (b))

__constant__ float c_Filter[FILTER_SIZE * FILTER_SIZE];

extern "C" __global__ void convolve2D(unsigned char *out, const unsigned char *in, int width, int height, size_t pitch)
{
  int col = threadIdx.x + blockIdx.x * blockDim.x;
  int row = threadIdx.y + blockIdx.y * blockDim.y;
  if (col >= width || row >= height)
    return;

  float sum = 0.0f;
  #pragma unroll
  for (int fy = -FILTER_RADIUS; fy <= FILTER_RADIUS; fy++) {
    #pragma unroll
    for (int fx = -FILTER_RADIUS; fx <= FILTER_RADIUS; fx++) {
      int x = max(0, min(col + fx, width - 1));
      int y = max(0, min(row + fy, height - 1));
      const unsigned char *line = (const unsigned char *)((const char *)in + y * pitch);
      sum += line[x] * c_Filter[(fy + FILTER_RADIUS) * FILTER_SIZE + fx + FILTER_RADIUS];
    }
  }
  out[row * pitch + col] = (unsigned char)__float2uint_rz(fminf(fmaxf(sum, 0.0f), 255.0f));
}

typedef struct {
  int width, height;
  uint8_t *pixels;
} image_t;

static int load_pgm(const char *path, image_t *image)
{
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  int ok = fscanf(f, "P5 %d %d 255", &image->width, &image->height) == 2;
  fgetc(f);
  image->pixels = (uint8_t *)malloc(image->width * image->height);
  ok = ok && fread(image->pixels, 1, image->width * image->height, f) == (size_t)(image->width * image->height);
  fclose(f);
  return ok;
}

int main(int argc, char **argv)
{
  static const float sharpen[FILTER_SIZE * FILTER_SIZE] = { 0, -1, 0, -1, 5, -1, 0, -1, 0 };
  image_t image;
  if (argc != 3 || !load_pgm(argv[1], &image)) {
    fprintf(stderr, "usage: %s in.pgm out.pgm\n", argv[0]);
    return 1;
  }
  unsigned char *d_in, *d_out;
  size_t pitch;
  cudaMallocPitch((void **)&d_in, &pitch, image.width, image.height);
  cudaMallocPitch((void **)&d_out, &pitch, image.width, image.height);
  cudaMemcpy2D(d_in, pitch, image.pixels, image.width, image.width, image.height, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbol(c_Filter, sharpen, sizeof(sharpen));
  dim3 block(MIN(16, image.width), 16), grid((image.width + block.x - 1) / block.x, (image.height + 15) / 16);
  convolve2D<<<grid, block>>>(d_out, d_in, image.width, image.height, pitch);
  cudaMemcpy2D(image.pixels, image.width, d_out, pitch, image.width, image.height, cudaMemcpyDeviceToHost);
  FILE *f = fopen(argv[2], "wb");
  fprintf(f, "P5 %d %d 255\n", image.width, image.height);
  fwrite(image.pixels, 1, image.width * image.height, f);
  fclose(f);
  return 0;
}
