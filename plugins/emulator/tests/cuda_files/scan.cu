#include <iostream>
#include <vector>
using namespace std;

#define NUM_BANKS 32
#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

// Work-efficient exclusive scan (Blelloch); n is a power of two, one block of n / 2 threads.
__global__ void prescan(int *g_odata, const int *g_idata, int n)
{
	extern __shared__ int temp[];
	int thid = threadIdx.x;
	int offset = 1;

	int ai = thid, bi = thid + (n / 2);
	int bankOffsetA = CONFLICT_FREE_OFFSET(ai), bankOffsetB = CONFLICT_FREE_OFFSET(bi);
	temp[ai + bankOffsetA] = g_idata[ai];
	temp[bi + bankOffsetB] = g_idata[bi];

	for (int d = n >> 1; d > 0; d >>= 1)	// up-sweep
	{
		__syncthreads();	// up
		if (thid < d)
		{
			int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
			ai += CONFLICT_FREE_OFFSET(ai);
			bi += CONFLICT_FREE_OFFSET(bi);
			temp[bi] += temp[ai];
		}
		offset *= 2;
	}
	if (thid == 0) { temp[n - 1 + CONFLICT_FREE_OFFSET(n - 1)] = 0; }
	for (int d = 1; d < n; d *= 2)		// down-sweep
	{
		offset >>= 1;
		__syncthreads();	// down
		if (thid < d)
		{
			int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
			ai += CONFLICT_FREE_OFFSET(ai);
			bi += CONFLICT_FREE_OFFSET(bi);
			int t = temp[ai];
			temp[ai] = temp[bi];
			temp[bi] += t;
		}
	}
	__syncthreads();
	g_odata[ai] = temp[ai + bankOffsetA];
	g_odata[bi] = temp[bi + bankOffsetB];
}

int main()
{
	const int n = 256;
	vector<int> in(n), out(n);
	for (int i = 0; i < n; i++) in[i] = i % 7;
	int *d_in, *d_out;
	cudaMalloc(&d_in, sizeof(int) * n);
	cudaMalloc(&d_out, sizeof(int) * n);
	cudaMemcpy(d_in, &in[0], sizeof(int) * n, cudaMemcpyHostToDevice);
	prescan<<<1, n / 2, (n + CONFLICT_FREE_OFFSET(n)) * sizeof(int)>>>(d_out, d_in, n);
	cudaMemcpy(&out[0], d_out, sizeof(int) * n, cudaMemcpyDeviceToHost);
	int sum = 0;
	for (int i = 0; i < n; i++)
	{
		if (out[i] != sum) { cerr << "mismatch at " << i << ": " << out[i] << " != " << sum << endl; return 1; }
		sum += in[i];
	}
	cout << "OK" << endl;
	return 0;
}
