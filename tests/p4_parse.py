"""Reads preprocessed P4-16 into the trees of tests/p4_syntax.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.p4_syntax import Block, Source, Table, Tree

_TOKEN = re.compile(
    r'\s+|("[^"]*"|\d+[ws](?:0x[0-9a-fA-F]+|\d+)|0x[0-9a-fA-F]+|\d+|[A-Za-z_]\w*'
    r"|&&&|\+\+|<<|==|!=|<=|>=|&&|\|\||[-+*/%&|^~!<>=(){}\[\];:,.?@])"
)
_BINARY = (
    ("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("|",), ("^",), ("&",), ("<<", ">>"),
    ("+", "-", "++"), ("*", "/", "%"),
)  # fmt: skip


def parse(text: str) -> Source:
    """The declarations of a preprocessed program; `SyntaxError` for what is not known here."""
    return _Parser(text).source()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(self._lex(text))
        self._at = 0
        self._source = Source()

    @staticmethod
    def _lex(text: str) -> Iterator[tuple[str, int]]:
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise SyntaxError(f"not a token: {text[at : at + 20]!r}")
            if found[1]:
                yield found[1], at
            at = found.end()

    # -- tokens ---------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][0] if at < len(self._tokens) else ""

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += 1
        return True

    def _need(self, *tokens: str) -> None:
        for token in tokens:
            if not self._take(token):
                near = " ".join(each for each, _ in self._tokens[self._at - 8 : self._at + 8])
                raise SyntaxError(f"{token!r} is needed, not {self._peek()!r}, in: {near}")

    def _annotations(self) -> str:
        """Skip them; return the name that one of them gives."""
        name = ""
        while self._take("@"):
            kind = self._next()
            if self._take("("):
                while (token := self._next()) != ")":
                    name = token.strip('"') if kind == "name" else name
        return name

    # -- declarations ---------------------------------------------------------------------------

    def source(self) -> Source:
        while self._peek():
            self._annotations()
            match self._next():
                case "const":
                    kind, name = self._type(), self._next()
                    self._need("=")
                    self._source.consts[name] = (kind, self._expression())
                    self._need(";")
                case "typedef":
                    kind = self._type()
                    self._source.types[self._next()] = kind
                    self._need(";")
                case "header" | "struct" as word:
                    self._struct(word)
                case "parser" | "control":
                    block = self._block()
                    self._source.blocks[block.name] = block
                case "Pipeline" | "Switch":
                    while self._next() != ";":
                        pass
                case other:
                    raise SyntaxError(f"{other!r} declares nothing that is known here")
        return self._source

    def _struct(self, word: str) -> None:
        name, fields = self._next(), []
        self._need("{")
        while not self._take("}"):
            self._annotations()
            kind = self._type()
            if self._take("["):
                kind = ("stack", kind, self._expression())
                self._need("]")
            fields.append((kind, self._next()))
            self._need(";")
        self._source.types[name] = (word, fields)

    def _type(self) -> Tree:
        name = self._next()
        if name not in ("bit", "int"):
            return ("name", name)
        self._need("<")
        width = self._postfix()
        self._need(">")
        return (name, width)

    def _params(self) -> list[tuple[str, Tree, str]]:
        self._need("(")
        params = []
        while not self._take(")"):
            direction = self._next() if self._peek() in ("in", "out", "inout") else ""
            kind = self._type()
            params.append((direction, kind, self._next()))
            self._take(",")
        return params

    def _block(self) -> Block:
        block = Block(self._next(), self._params())
        self._need("{")
        while not self._take("}"):
            self._member(block, self._annotations())
        return block

    def _member(self, block: Block, public: str) -> None:
        word = self._next()
        if word == "apply":
            block.body = self._statements()
        elif word == "state":
            name = self._next()
            block.states[name] = self._statements()
        elif word == "action":
            name = self._next()
            block.actions[name] = (self._params(), self._statements())
            block.public[name] = public or name
        elif word == "table":
            table = self._table()
            block.tables[table.name] = table
            block.public[table.name] = public or table.name
        elif word in ("Register", "RegisterAction", "Counter"):
            self._extern(block, word)
        elif self._take("("):
            self._need(")")
            block.instances[self._next()] = word
            self._need(";")
        else:
            self._at -= 1
            kind = self._type()
            block.local.append((kind, self._next()))
            self._need(";")

    def _extern(self, block: Block, word: str) -> None:
        self._need("<")
        kinds = [self._type()]
        while self._take(","):
            kinds.append(self._type())
        self._need(">", "(")
        argument = self._expression()
        while self._take(","):
            self._expression()
        self._need(")")
        name = self._next()
        if word == "Register":
            block.registers[name] = (kinds[0], argument)
        elif word == "Counter":
            block.counters.append(name)
        else:
            self._need("=", "{", "void", "apply")
            params = self._params()
            block.register_actions[name] = (argument[1], params, self._statements())
            self._need("}")
        self._need(";")

    def _table(self) -> Table:
        table = Table(self._next())
        self._need("{")
        while not self._take("}"):
            self._take("const")
            word = self._next()
            self._need("=")
            if word == "key":
                self._need("{")
                while not self._take("}"):
                    key = self._expression()
                    self._need(":")
                    table.keys.append((key, self._next()))
                    self._annotations()
                    self._need(";")
            elif word == "actions":
                while self._next() != "}":
                    pass
            elif word == "entries":
                self._need("{")
                while not self._take("}"):
                    keys = self._keyset()
                    self._need(":")
                    table.entries.append((keys, self._expression()))
                    self._need(";")
            else:
                value = self._expression()
                self._need(";")
                if word == "default_action":
                    table.default = value
                else:
                    table.size = value
        return table

    # -- statements -----------------------------------------------------------------------------

    def _statements(self) -> list[Tree]:
        self._need("{")
        found = []
        while not self._take("}"):
            found.append(self._statement())
        return found

    def _statement(self) -> Tree:
        if self._peek() == "{":
            return ("block", self._statements())
        if self._take("transition"):
            return self._transition()
        if self._take("if"):
            self._need("(")
            condition = self._expression()
            self._need(")")
            yes = self._statement()
            return ("if", condition, yes, self._statement() if self._take("else") else None)
        if self._peek() in ("bit", "int") or re.match(r"[A-Za-z_]", self._peek(1)):
            kind, name = self._type(), self._next()
            self._need("=")
            made: Tree = ("variable", kind, name, self._expression())
        else:
            made = self._expression()
            if self._take("="):
                made = ("assign", made, self._expression())
        self._need(";")
        return made

    def _transition(self) -> Tree:
        if not self._take("select"):
            name = self._next()
            self._need(";")
            return ("goto", name)
        self._need("(")
        keys = [self._expression()]
        while self._take(","):
            keys.append(self._expression())
        self._need(")", "{")
        cases = []
        while not self._take("}"):
            wanted = self._keyset()
            self._need(":")
            cases.append((wanted, self._next()))
            self._need(";")
        return ("select", keys, cases)

    def _keyset(self) -> list[Tree]:
        if not self._take("("):
            return [self._key()]
        keys = [self._key()]
        while self._take(","):
            keys.append(self._key())
        self._need(")")
        return keys

    def _key(self) -> Tree:
        if self._take("_") or self._take("default"):
            return ("any",)
        value = self._expression()
        return ("mask", value, self._expression()) if self._take("&&&") else ("is", value)

    # -- expressions ----------------------------------------------------------------------------

    def _expression(self, level: int = 0) -> Tree:
        if level == len(_BINARY):
            return self._unary()
        left = self._expression(level + 1)
        while (operator := self._operator()) in _BINARY[level]:
            self._at += 2 if operator == ">>" else 1
            left = ("binary", operator, left, self._expression(level + 1))
        return left

    def _operator(self) -> str:
        """The next word; two angle brackets without a space are a shift."""
        word = self._peek()
        if word == ">" == self._peek(1):
            adjacent = self._tokens[self._at + 1][1] == self._tokens[self._at][1] + 1
            return ">>" if adjacent else word
        return word

    def _unary(self) -> Tree:
        for operator in ("!", "~", "-"):
            if self._take(operator):
                return ("unary", operator, self._unary())
        is_cast = self._peek() == "(" and (
            self._peek(1) in ("bit", "int")
            or (self._peek(1) in self._source.types and self._peek(2) == ")")
        )
        if is_cast:
            self._need("(")
            kind = self._type()
            self._need(")")
            return ("cast", kind, self._unary())
        return self._postfix()

    def _postfix(self) -> Tree:
        made = self._primary()
        while True:
            if self._take("."):
                made = ("member", made, self._next())
                if made[2] == "lookahead":
                    self._need("<")
                    kind = self._type()
                    self._need(">", "(", ")")
                    made = ("lookahead", kind)
            elif self._take("["):
                high = self._expression()
                self._need(":")
                made = ("slice", made, high, self._expression())
                self._need("]")
            elif self._take("("):
                made = ("call", made, self._list(")"))
            else:
                return made

    def _list(self, end: str) -> list[Tree]:
        found = []
        while not self._take(end):
            found.append(self._expression())
            self._take(",")
        return found

    def _primary(self) -> Tree:
        word = self._next()
        if word == "(":
            made = self._expression()
            self._need(")")
            return made
        if word == "{":
            return ("list", self._list("}"))
        if sized := re.fullmatch(r"(\d+)([ws])(\w+)", word):
            return ("number", int(sized[3], 0), int(sized[1]), sized[2] == "s")
        if word[0].isdigit():
            return ("number", int(word, 0), None, False)
        return ("name", word)
