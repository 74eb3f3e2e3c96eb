/* Calls the kernel of a shared library once.
 * Usage: runner LIBRARY IN OUT PARAMETERS OVER OPERAND SIZE...
 * Buffers of SIZE bytes each: the first PARAMETERS ones are read from IN and written to OUT, the rest is scratch memory.
 * During the call, buffer OVER is the memory of buffer OPERAND. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef void call(void *const *buffers);

int main(int count, char **words) {
  enum { FIXED = 7 };
  if (count < FIXED) return 1;
  const int parameters = atoi(words[4]), over = atoi(words[5]), operand = atoi(words[6]), number = count - FIXED;
  void *library = dlopen(words[1], RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void *symbol = dlsym(library, "edgetune_call");
  FILE *in = fopen(words[2], "rb"), *out = fopen(words[3], "wb");
  void **buffers = calloc((size_t)number + 1, sizeof *buffers);
  if (symbol == NULL || in == NULL || out == NULL || buffers == NULL) return 1;
  for (int i = 0; i < number; ++i) {
    const size_t size = strtoull(words[FIXED + i], NULL, 10);
    buffers[i] = i < parameters ? malloc(size) : aligned_alloc(64, size);
    if (i < parameters && fread(buffers[i], 1, size, in) != size) return 2;
  }
  void *const own = buffers[over];
  buffers[over] = buffers[operand];
  call *run;
  *(void **)&run = symbol; /* as POSIX has it */
  run(buffers);
  for (int i = 0; i < parameters; ++i) fwrite(buffers[i], 1, strtoull(words[FIXED + i], NULL, 10), out);
  buffers[over] = own;
  for (int i = 0; i < number; ++i) free(buffers[i]);
  free(buffers);
  fclose(in);
  return fclose(out);
}
