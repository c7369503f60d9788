#include "lexer.h"

#include <cctype>

namespace sim {
namespace {

bool starts_word(char c) {
  return isalpha(static_cast<u8>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

bool in_word(char c) { return starts_word(c) || isdigit(static_cast<u8>(c)); }

struct Lexer {
  std::string_view text;
  size_t at = 0;
  int line = 1;
  std::vector<Token> tokens;

  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }

  void add(Token::Kind kind, size_t begin) {
    tokens.push_back({kind, text.substr(begin, at - begin), line});
  }

  void skip_comment() {
    if (peek(1) == '/') {
      while (at < text.size() && text[at] != '\n') at++;
      return;
    }
    at += 2;
    while (at < text.size() && !(text[at] == '*' && peek(1) == '/')) line += text[at++] == '\n';
    at += 2;
  }

  void word() {
    const size_t begin = at;
    while (true) {
      while (in_word(peek())) at++;
      // `L2::cache_hint` is one word; `label:` ends before its colon.
      if (!(peek() == ':' && peek(1) == ':')) break;
      at += 2;
    }
    // `%r<12>` in a declaration keeps its brackets as tokens of their own.
    add(Token::kWord, begin);
  }

  void number() {
    const size_t begin = at;
    while (isalnum(static_cast<u8>(peek())) || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && (text[at - 1] == 'e' || text[at - 1] == 'E') &&
            text.substr(begin, 2) != "0x")) {
      at++;
    }
    add(Token::kNumber, begin);
  }

  void string() {
    const size_t begin = at++;
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    at++;
    add(Token::kString, begin);
  }

  void run() {
    while (at < text.size() && text[at] != '\0') {
      const char c = text[at];
      if (c == '\n') line++;
      if (isspace(static_cast<u8>(c))) {
        at++;
      } else if (c == '/' && (peek(1) == '/' || peek(1) == '*')) {
        skip_comment();
      } else if (starts_word(c)) {
        word();
      } else if (isdigit(static_cast<u8>(c))) {
        number();
      } else if (c == '"') {
        string();
      } else {
        at++;
        add(Token::kPunctuation, at - 1);
      }
    }
    tokens.push_back({Token::kEnd, {}, line});
  }
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  Lexer lexer;
  lexer.text = text;
  lexer.run();
  return std::move(lexer.tokens);
}

}  // namespace sim
