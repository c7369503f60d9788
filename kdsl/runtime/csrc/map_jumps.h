// map_jumps.h: how far away the next entry of a chain may be: a table of the ABI, see map.c.
#pragma once
#include <stdint.h>

#define JUMPS 126

// The distances that a mark can name: 0 to 15, then triangular numbers; the last ones are sparse.
static inline uint64_t jump_distance(unsigned index) {
  static const uint64_t sparse[JUMPS - 83] = {8515,
                                              19110,
                                              42778,
                                              96141,
                                              216153,
                                              486591,
                                              1092981,
                                              2458653,
                                              5532801,
                                              12442566,
                                              27993903,
                                              62983476,
                                              141717030,
                                              318844378,
                                              717352503,
                                              1614057336,
                                              3631522476,
                                              8170957530,
                                              18384510628,
                                              41364789378,
                                              93070452520,
                                              209408356380,
                                              471168559170,
                                              1060128894105,
                                              2385289465695,
                                              5366898840628,
                                              12075518705635,
                                              27169915244790,
                                              61132312065111,
                                              137547689707000,
                                              309482283181501,
                                              696335127828753,
                                              1566753995631385,
                                              3525196511162271,
                                              7931691992677701,
                                              17846306936293605,
                                              40154190677507445,
                                              90346928918121501,
                                              203280589587557251,
                                              457381325854679626,
                                              1029107982097042876,
                                              2315492959180353330,
                                              5209859154120846435};
  if (index < 16) return index;
  uint64_t n = index - 10;  // 16 names the sixth triangular number, 21
  return index < 83 ? n * (n + 1) / 2 : sparse[index - 83];
}
