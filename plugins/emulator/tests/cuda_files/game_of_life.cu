#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <unistd.h>

using ubyte = unsigned char;

enum class State : ubyte { Dead = 0, Alive = 1 };

// One generation on a torus.
__global__ void evolve(const State *life, uint worldWidth, uint worldHeight, State *result) {
  uint worldSize = worldWidth * worldHeight;
  for (uint cell = __mul24(blockIdx.x, blockDim.x) + threadIdx.x; cell < worldSize; cell += blockDim.x * gridDim.x) {
    uint x = cell % worldWidth;
    uint y = cell - x;
    uint left = (x + worldWidth - 1) % worldWidth, right = (x + 1) % worldWidth;
    uint up = (y + worldSize - worldWidth) % worldSize, down = (y + worldWidth) % worldSize;
    auto alive = [life](uint at) { return life[at] == State::Alive ? 1 : 0; };
    int neighbors = alive(left + up) + alive(x + up) + alive(right + up) + alive(left + y) + alive(right + y) +
                    alive(left + down) + alive(x + down) + alive(right + down);
    result[x + y] = neighbors == 3 || (neighbors == 2 && life[x + y] == State::Alive) ? State::Alive : State::Dead;
  }
}

class World {
  uint width_, height_;
  State *front_, *back_;

 public:
  World(uint width, uint height) : width_(width), height_(height) {
    cudaMallocManaged(&front_, width * height);
    cudaMallocManaged(&back_, width * height);
    memset(front_, 0, width * height);
  }
  World(const World &) = delete;
  ~World() { cudaFree(front_); cudaFree(back_); }
  void glider(uint x, uint y) {
    const char *shape[] = {".#.", "..#", "###"};
    for (uint dy = 0; dy < 3; dy++)
      for (uint dx = 0; dx < 3; dx++)
        if (shape[dy][dx] == '#') front_[(y + dy) * width_ + x + dx] = State::Alive;
  }
  void step() {
    evolve<<<4, 64>>>(front_, width_, height_, back_);
    cudaDeviceSynchronize();
    std::swap(front_, back_);
  }
  std::string str() const {
    std::string text;
    for (uint y = 0; y < height_; y++, text += '\n')
      for (uint x = 0; x < width_; x++) text += front_[y * width_ + x] == State::Alive ? '#' : '.';
    return text;
  }
};

int main(int argc, char **) {
  World world(20, 12);
  world.glider(3, 2);
  for (int generation = 0; generation < 8; generation++) {
    world.step();
    std::cout << world.str() << std::endl;
    if (argc > 1) usleep(100000);
  }
}
