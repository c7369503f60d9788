// lexer.h: PTX text as tokens. The views point into the text, which must outlive them.
#pragma once
#include <string_view>
#include <vector>

#include "base.h"

namespace sim {

struct Token {
  enum Kind { kWord, kNumber, kString, kPunctuation, kEnd };
  Kind kind = kEnd;
  std::string_view text;
  int line = 0;
};

/// All tokens of a text, comments left out, a kEnd last.
std::vector<Token> tokenize(std::string_view text);

}  // namespace sim
