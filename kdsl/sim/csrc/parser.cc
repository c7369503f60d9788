#include <cstdlib>
#include <tuple>

#include "lexer.h"
#include "ptx.h"

namespace sim {
namespace {

std::vector<std::string> pieces(std::string_view word) {
  std::vector<std::string> out;
  size_t begin = 0;
  while (begin <= word.size()) {
    const size_t end = std::min(word.find('.', begin), word.size());
    if (end > begin) out.emplace_back(word.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

bool is_type(std::string_view word) {
  static const char* const kTypes[] = {"b8",  "u8",  "s8",  "b16", "u16",   "s16",  "f16",
                                       "b32", "u32", "s32", "f32", "f16x2", "bf16", "bf16x2",
                                       "b64", "u64", "s64", "f64", "pred",  "b128", "tf32"};
  for (const char* type : kTypes) {
    if (word == type) return true;
  }
  return false;
}

bool is_space(std::string_view word) {
  return word == "reg" || word == "param" || word == "shared" || word == "global" ||
         word == "const" || word == "local";
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text), tokens_(tokenize(text)) {}

  Module run() {
    while (peek().kind != Token::kEnd) top_level();
    return std::move(module_);
  }

 private:
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) at_++;
    return token;
  }
  bool is(std::string_view text, size_t ahead = 0) const { return peek(ahead).text == text; }
  bool take(std::string_view text) {
    if (!is(text) || peek().kind == Token::kString) return false;
    next();
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    const bool end = peek().kind == Token::kEnd;
    throw Error("PTX line " + std::to_string(peek().line) + ": " + what + ", found " +
                (end ? "the end of the text" : "`" + std::string(peek().text) + "`"));
  }
  void expect(std::string_view text) {
    if (!take(text)) fail("expected `" + std::string(text) + "`");
  }
  std::string word() {
    if (peek().kind != Token::kWord) fail("expected a name");
    return std::string(next().text);
  }
  i64 integer() {
    const bool minus = take("-");
    if (peek().kind != Token::kNumber) fail("expected a number");
    const i64 value = static_cast<i64>(strtoull(std::string(next().text).c_str(), nullptr, 0));
    return minus ? -value : value;
  }
  void skip_line() {
    const int line = peek().line;
    while (peek().kind != Token::kEnd && peek().line == line) next();
  }
  void skip_block() {
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (peek().kind == Token::kEnd) fail("a `{` is never closed");
      const Token& token = next();
      if (token.kind == Token::kPunctuation) depth += (token.text == "{") - (token.text == "}");
    }
  }
  void skip_statement() {
    while (!is(";") && peek().kind != Token::kEnd) next();
    take(";");
  }

  void top_level() {
    if (is(".version") || is(".address_size")) return skip_line();
    if (take(".target")) {
      module_.target = word();
      return skip_rest(peek().line);
    }
    if (is(".file")) return file();
    if (is(".section")) {
      while (!is("{")) next();
      return skip_block();
    }
    if (is(".pragma") || is(".alias")) return skip_statement();
    bool external = false;
    while (is(".visible") || is(".extern") || is(".weak") || is(".common")) {
      external |= next().text == ".extern";
    }
    if (is(".entry") || is(".func")) return function();
    if (peek().kind == Token::kWord && peek().text[0] == '.') {
      Variable variable = declaration();
      variable.external = external;
      if (take("=")) initial(variable.init);
      expect(";");
      module_.variables.push_back(std::move(variable));
      return;
    }
    fail("expected a directive");
  }

  void skip_rest(int line) {
    while (peek().kind != Token::kEnd && peek().line == line && peek(0).text == ",") {
      next();
      next();
    }
  }

  void file() {
    const int line = next().line;
    const int number = static_cast<int>(integer());
    std::string name(next().text);
    if (name.size() >= 2) name = name.substr(1, name.size() - 2);
    module_.files[number] = name;
    while (peek().kind != Token::kEnd && peek().line == line) next();
  }

  /// `.loc 1 16 3, function_name $x, inlined_at 1 108 80`
  void loc() {
    const int line = next().line;
    Place place;
    place.file = static_cast<int>(integer());
    place.line = static_cast<int>(integer());
    if (peek().line == line && peek().kind == Token::kNumber) {
      place.column = static_cast<int>(integer());
    }
    while (peek().kind != Token::kEnd && peek().line == line) {
      if (!take("inlined_at")) {
        next();
        continue;
      }
      const int file = static_cast<int>(integer());
      const int at = static_cast<int>(integer());
      const int column = static_cast<int>(integer());
      const auto known = by_position_.find({file, at, column});
      if (known != by_position_.end()) {
        place.inlined_at = known->second;
      } else {
        module_.places.push_back({file, at, column, -1});
        place.inlined_at = static_cast<int>(module_.places.size()) - 1;
      }
    }
    module_.places.push_back(place);
    place_ = static_cast<int>(module_.places.size()) - 1;
    by_position_[{place.file, place.line, place.column}] = place_;
  }

  Variable declaration() {
    Variable v;
    while (peek().kind == Token::kWord && peek().text[0] == '.') {
      const std::string word(next().text.substr(1));
      if (word == "align") {
        v.align = integer();
      } else if (word == "ptr") {
        // `.ptr .global .align 16` says where a pointer leads; nothing depends on it here.
        if (peek().kind == Token::kWord && is_space(peek().text.substr(1))) next();
        if (take(".align")) integer();
      } else if (is_space(word)) {
        v.space = word;
      } else if (is_type(word)) {
        v.type = word;
      } else if (word == "attribute") {
        while (!take(")")) next();
      } else if (word == "v2" || word == "v4") {
        v.count *= word == "v2" ? 2 : 4;
      } else {
        fail("unknown directive `." + word + "` in a declaration");
      }
    }
    v.name = word();
    while (take("[")) {
      v.array = true;
      v.count *= is("]") ? 0 : integer();
      expect("]");
    }
    return v;
  }

  void initial(std::vector<Operand>& out) {
    if (take("{")) {
      while (!take("}")) {
        initial(out);
        take(",");
      }
      return;
    }
    if (is("generic") || is("mask")) {
      Operand o;
      const bool generic = next().text == "generic";
      expect("(");
      o = operand();
      while (!take(")")) next();
      if (!generic) fail("mask(...) in an initialiser is not supported");
      out.push_back(o);
      return;
    }
    out.push_back(operand());
  }

  void function() {
    Function f;
    f.line = peek().line;
    f.entry = next().text == ".entry";
    if (!f.entry && is("(")) parameters(f.returns);
    f.name = word();
    if (is("(")) parameters(f.params);
    while (!is("{") && !is(";")) {
      const std::string directive = word();
      if (directive == ".maxntid" || directive == ".reqntid") {
        f.exact_threads = directive == ".reqntid";
        f.max_threads.clear();
        do f.max_threads.push_back(static_cast<int>(integer()));
        while (take(","));
      } else if (directive == ".pragma") {
        skip_statement();
      } else {
        while (!is("{") && !is(";") && !(peek().kind == Token::kWord && peek().text[0] == '.')) {
          next();
        }
      }
    }
    if (!take(";")) {
      f.defined = true;
      body(f.body);
    }
    Function& known = module_.functions[f.name];
    if (!known.defined) known = std::move(f);
  }

  void parameters(std::vector<Variable>& out) {
    expect("(");
    while (!take(")")) {
      out.push_back(declaration());
      take(",");
    }
  }

  void body(std::vector<Statement>& out) {
    expect("{");
    place_ = 0;
    for (int depth = 1; depth > 0;) {
      if (peek().kind == Token::kEnd) fail("the body of a function is never closed");
      if (is(".loc")) {
        loc();
        continue;
      }
      Statement s;
      s.line = peek().line;
      s.place = place_;
      if (is("{") || is("}")) {
        s.kind = next().text == "{" ? Statement::kOpen : Statement::kClose;
        depth += s.kind == Statement::kOpen ? 1 : -1;
        if (depth > 0) out.push_back(std::move(s));
      } else if (peek().kind == Token::kWord && peek().text[0] == '.') {
        directive(s, out);
      } else if (peek().kind == Token::kWord && is(":", 1)) {
        label(s, out);
      } else {
        instruction(s);
        out.push_back(std::move(s));
      }
    }
  }

  void directive(Statement& s, std::vector<Statement>& out) {
    if (is(".pragma") || is(".callprototype")) return skip_statement();
    if (is(".file")) return file();
    if (is(".section")) {
      while (!is("{")) next();
      return skip_block();
    }
    if (is(".reg")) {
      next();
      s.kind = Statement::kRegisters;
      s.op = pieces(next().text);
      do {
        Operand o;
        o.name = word();
        if (take("<")) {
          o.bits = static_cast<u64>(integer());
          expect(">");
        }
        s.operands.push_back(o);
      } while (take(","));
      expect(";");
    } else {
      s.kind = Statement::kVariable;
      s.variable = declaration();
      if (take("=")) initial(s.variable.init);
      expect(";");
    }
    out.push_back(std::move(s));
  }

  void label(Statement& s, std::vector<Statement>& out) {
    s.kind = Statement::kLabel;
    s.op = {word()};
    expect(":");
    if (is(".branchtargets") || is(".calltargets") || is(".callprototype")) {
      const bool targets = next().text == ".branchtargets";
      if (!targets) return skip_statement();
      s.kind = Statement::kTargets;
      do s.operands.push_back(operand());
      while (take(","));
      expect(";");
    }
    out.push_back(std::move(s));
  }

  void instruction(Statement& s) {
    const char* begin = peek().text.data();
    if (take("@")) {
      s.guard_inverted = take("!");
      s.guard = word();
    }
    s.op = pieces(word());
    while (!is(";")) {
      if (peek().kind == Token::kEnd) fail("an instruction never ends");
      s.operands.push_back(operand());
      // A few instructions have operands without a comma before a bracket.
      if (!take(",") && !is(";")) fail("expected `,` or `;`");
    }
    s.text = squeezed(begin, next().text.data());
  }

  static std::string squeezed(const char* begin, const char* end) {
    std::string out;
    for (; begin < end; begin++) {
      const bool space = *begin == ' ' || *begin == '\t' || *begin == '\n' || *begin == '\r';
      if (!space) {
        out += *begin;
      } else if (!out.empty() && out.back() != ' ') {
        out += ' ';
      }
    }
    return out;
  }

  void list(std::vector<Operand>& out, std::string_view close) {
    while (!take(close)) {
      if (peek().kind == Token::kEnd) fail("a bracket is never closed");
      out.push_back(operand());
      take(",");
    }
  }

  Operand operand() {
    Operand o;
    if (take("{")) {
      o.kind = Operand::kVector;
      list(o.items, "}");
      return o;
    }
    if (take("(")) {
      o.kind = Operand::kList;
      list(o.items, ")");
      return o;
    }
    if (take("[")) {
      o.kind = Operand::kMemory;
      list(o.items, "]");
      if (o.items.empty()) fail("an address is empty");
      o.offset = o.items[0].offset;
      return o;
    }
    if (take("!")) {
      o = operand();
      o.inverted = true;
      return o;
    }
    const bool minus = take("-");
    if (peek().kind == Token::kNumber) return number(minus);
    if (minus) fail("expected a number after `-`");
    if (take("_")) return maybe_pair(o);
    o.kind = Operand::kName;
    o.name = word();
    while (is("+") || is("-")) {
      const bool negative = next().text == "-";
      const i64 value = integer();
      o.offset += negative ? -value : value;
    }
    return maybe_pair(o);
  }

  Operand maybe_pair(Operand first) {
    if (!take("|")) return first;
    Operand pair;
    pair.kind = Operand::kPair;
    pair.items.push_back(std::move(first));
    pair.items.push_back(operand());
    return pair;
  }

  Operand number(bool minus) {
    Operand o;
    const std::string text(next().text);
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
      const u32 bits = static_cast<u32>(strtoul(text.c_str() + 2, nullptr, 16));
      o.kind = Operand::kFloat;
      // A NaN's bits would not survive becoming a double: `offset` keeps them for f32.
      o.offset = bits;
      o.bits = bits_as<u64>(static_cast<double>(bits_as<float>(bits)));
    } else if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
      o.kind = Operand::kFloat;
      o.bits = strtoull(text.c_str() + 2, nullptr, 16);
      o.offset = bits_as<u32>(static_cast<float>(bits_as<double>(o.bits)));
    } else if (text.find('.') != std::string::npos) {
      const double value = (minus ? -1 : 1) * strtod(text.c_str(), nullptr);
      o.kind = Operand::kFloat;
      o.bits = bits_as<u64>(value);
      o.offset = bits_as<u32>(static_cast<float>(value));
    } else {
      o.kind = Operand::kInt;
      const bool binary = text.size() > 2 && (text[1] == 'b' || text[1] == 'B');
      o.bits = binary ? strtoull(text.c_str() + 2, nullptr, 2) : strtoull(text.c_str(), nullptr, 0);
      if (minus) o.bits = 0 - o.bits;
    }
    if (is("+") && o.kind == Operand::kInt) {  // [16+4]
      next();
      o.bits += static_cast<u64>(integer());
    }
    return o;
  }

  const std::string& text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  int place_ = 0;
  std::map<std::tuple<int, int, int>, int> by_position_;
};

}  // namespace

Module parse(const std::string& text) { return Parser(text).run(); }

}  // namespace sim
