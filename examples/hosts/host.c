// host.c: attention from C. Needs libc and the exported library, and no kdsl when it runs.
//   python ../attention/export.py . && gcc host.c ./attention.so -o host && ./host out.bin
#include <stdio.h>

#include "attention.h"

enum { HEADS = 4, ROWS = 8, SIZE = 64, COUNT = HEADS * ROWS * SIZE };
static float q[COUNT], k[COUNT], v[COUNT], o[COUNT], lse[HEADS * ROWS];

/// Prints the reason of a call that has to fail; ends the program if it did not.
static int refused(int status) {
  if (status == 0) return printf("accepted\n"), 1;
  printf("%s\n", __kdsl_last_error());
  return 0;
}

int main(int argc, char** argv) {
  for (int i = 0; i < COUNT; ++i) {
    q[i] = (float)(i % 7) / 7, k[i] = (float)(i % 5) / 5, v[i] = (float)(i % 3);
  }
  const int64_t shape[] = {1, HEADS, ROWS, SIZE};
  DLTensor views[] = {kdsl_view(q, KDSL_F32, 4, shape), kdsl_view(k, KDSL_F32, 4, shape),
                      kdsl_view(v, KDSL_F32, 4, shape)};
  const DLTensor out = kdsl_view(o, KDSL_F32, 4, shape), sums = kdsl_view(lse, KDSL_F32, 3, shape);

  // Into memory of ours.
  if (attention(&views[0], &views[1], &views[2], 0.125, &out, &sums, true)) {
    return fprintf(stderr, "%s\n", __kdsl_last_error()), 1;
  }
  printf("o[0, 0, 1, :3] = %.6f %.6f %.6f\n", o[SIZE], o[SIZE + 1], o[SIZE + 2]);

  // Into tensors that the call makes.
  TVMFFIAny made;
  if (attention_new(&views[0], &views[1], &views[2], 0.125, true, &made)) {
    return fprintf(stderr, "%s\n", __kdsl_last_error()), 1;
  }
  const float* again = (const float*)kdsl_made(&made, 0)->data;
  printf("made again: %s\n", again[SIZE] == o[SIZE] ? "the same" : "different");
  kdsl_release(&made);

  // What is wrong is said, and nothing is done.
  if (refused(attention(&views[0], &views[1], &views[2], -1, &out, &sums, true))) return 1;
  if (refused(attention(NULL, &views[1], &views[2], 0.125, &out, &sums, true))) return 1;
  if (refused(attention(&views[0], &views[1], &views[2], 0.125, NULL, NULL, true))) return 1;
  views[0].dtype = KDSL_F64;
  if (refused(attention(&views[0], &views[1], &views[2], 0.125, &out, &sums, true))) return 1;
  views[0].dtype = KDSL_F32;
  views[2].data = NULL;
  if (refused(attention(&views[0], &views[1], &views[2], 0.125, &out, &sums, true))) return 1;

  FILE* file = argc > 1 ? fopen(argv[1], "wb") : NULL;
  if (!file) return 0;
  fwrite(o, sizeof(o), 1, file);
  fwrite(lse, sizeof(lse), 1, file);
  return fclose(file);
}
