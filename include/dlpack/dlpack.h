// dlpack/dlpack.h: DLPack's name for kdsl's mirror of the standard's structs.
#include <kdsl/ffi/dlpack.h>
