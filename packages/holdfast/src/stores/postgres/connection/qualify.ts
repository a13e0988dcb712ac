/**
 * Qualifies every function, type and operator of a statement with its schema, `pg_catalog`.
 *
 * PostgreSQL looks up unqualified names along the search path, which is set by the caller that opened the connection or
 * transaction. A role that may create functions in a schema on that path could add one that fits the arguments better
 * (`public.cardinality(uuid[])`, or an operator `integer * interval`), and it would run with our privileges.
 * `pg_catalog` is searched first only if the path does not name it. So everything is qualified, even `=`.
 *
 * It understands the SQL that the statements of this store use. Syntax that implies an operator without writing it
 * (`BETWEEN`, `LIKE`, `NULLIF`, `CASE x WHEN`, …) cannot be qualified and is rejected.
 *
 * Not for scripts and function bodies: those set their own search path.
 */
export function qualify(text: string): Qualified {
  return sequence(tree(tokensOf(text))) as Qualified;
}

declare const qualified: unique symbol;
/** SQL that does not depend on the search path. Only this can be sent as a statement. */
export type Qualified = string & { readonly [qualified]: true };

interface Leaf {
  kind: "word" | "operator" | "other";
  text: string;
  /** A word in lower case. */
  word: string;
  /** Whitespace and comments before it. */
  space: string;
}
/** The parts between parentheses, brackets, or `CASE` and `END`. */
interface Group {
  kind: "group";
  open: string;
  parts: Node[];
  close: string;
  space: string;
}
type Node = Leaf | Group;

const TOKEN = new RegExp(
  [
    /((?:\s|--[^\n]*)+)/,
    /([A-Za-z_]\w*)/,
    /('(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+|\$\$[^]*?\$\$|\d+(?:\.\d+)?|::|:=|=>|[(),.;[\]])/,
    /([-+*/<>=~!@#%^&|`?]+)/,
  ]
    .map(({ source }) => source)
    .join("|"),
  "y",
);

function tokensOf(text: string): Leaf[] {
  const tokens: Leaf[] = [];
  let space = "";
  for (let at = 0; at < text.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (found === null) throw new SyntaxError(`cannot parse: ${text.slice(at, at + 40)}`);
    const [token, isSpace, word, , operator] = found;
    if (isSpace === undefined) {
      const kind = word === undefined ? (operator === undefined ? "other" : "operator") : "word";
      tokens.push({ kind, text: token, word: word?.toLowerCase() ?? "", space });
    }
    space = isSpace ?? "";
  }
  tokens.push({ kind: "other", text: "", word: "", space });
  return tokens;
}

const CLOSES: Readonly<Record<string, string>> = { "(": ")", "[": "]", CASE: "END" };

function tree(tokens: readonly Leaf[]): Node[] {
  const whole: Node[] = [];
  const open: { group: Group; end: string }[] = [];
  for (const leaf of tokens) {
    const name = leaf.kind === "word" ? leaf.text.toUpperCase() : leaf.text;
    const into = open.at(-1)?.group.parts ?? whole;
    const end = leaf.kind === "operator" ? undefined : CLOSES[name];
    if (end !== undefined) {
      const group: Group = { kind: "group", open: leaf.text, parts: [], close: end, space: leaf.space };
      into.push(group);
      open.push({ group, end });
    } else if (name === open.at(-1)?.end) {
      const closed = open.pop()?.group as Group;
      closed.close = leaf.space + leaf.text;
    } else {
      into.push(leaf);
    }
  }
  if (open.length > 0) throw new SyntaxError(`${open.at(-1)?.group.open ?? ""} is not closed`);
  return whole;
}

const words = (list: string): ReadonlySet<string> => new Set(list.split(" "));

/** Keywords that end an expression. No column may have one of these names. */
const DELIMITERS = words(
  "and or not select from where on using set when then else as order group by having limit offset returning values into " +
    "union except intersect all any some distinct do for is with join left right full inner outer cross lateral window " +
    "asc desc insert delete",
);
/** Keywords that imply operators, which cannot be qualified. */
const REFUSED = words("between like ilike similar overlaps natural nullif cast isnull notnull");
/** Words that may precede a parenthesis and are not functions. */
const NO_FUNCTIONS = words(
  "materialized conflict over filter array exists row coalesce greatest least extract overlay any all some in interval within",
);
/** Types that are keywords of the grammar; others are looked up along the path. */
const KEYWORD_TYPES = words(
  "int integer smallint bigint real float double decimal numeric boolean interval timestamp time bit char character varchar",
);

/** The parts of a statement on one level: expressions, separated by keywords. */
function sequence(parts: readonly Node[]): string {
  let text = "";
  let expression: Node[] = [];
  let after: Node | undefined;
  /** In the SET list of an UPDATE, where the next `=` assigns. */
  let assigns = false;
  let isList = false;
  const flush = (delimiter: Node | undefined): void => {
    text += expressionOf(expression, isWord(after, "as"));
    expression = [];
    after = delimiter;
    if (delimiter !== undefined) text += node(delimiter);
  };
  for (const [at, part] of parts.entries()) {
    refuse(part, parts[at + 1], parts[at + 2]);
    const isOperand = isWord(part, "any", "all", "some") && expression.at(-1)?.kind === "operator";
    const isNegated = isWord(part, "not") && isWord(parts[at + 1], "in");
    if (isWord(part, "set")) isList = assigns = true;
    else if (isWord(part, "from", "where", "returning")) isList = assigns = false;
    if (assigns && isText(part, "=")) {
      assigns = false;
      flush(part);
    } else if (isDelimiter(part, parts[at - 1], parts[at + 1]) && !isOperand && !isNegated) {
      flush(part);
    } else if (isText(part, ",") || isText(part, ";") || isText(part, "=>")) {
      assigns = isList;
      flush(part);
    } else {
      expression.push(part);
    }
  }
  flush(undefined);
  return text;
}

function isDelimiter(part: Node, before: Node | undefined, next: Node | undefined): boolean {
  const isFunction = isText(before, ".") || (isWord(part, "left", "right") && next?.kind === "group");
  return part.kind === "word" && DELIMITERS.has(part.word) && !isFunction;
}

function refuse(part: Node, next: Node | undefined, afterNext: Node | undefined): void {
  const isRefused = part.kind === "word" && REFUSED.has(part.word);
  const isJoin = isWord(part, "using") && next?.kind === "group" && !isQuery(next);
  const isDistinct = isWord(part, "is") && isWord(isWord(next, "not") ? afterNext : next, "distinct");
  if (isRefused || isJoin || isDistinct) {
    throw new SyntaxError(`${(part as Leaf).text} looks up its operator by the search path: write the operator`);
  }
}

/** Operator precedence of PostgreSQL, from the lowest; all other operators are between these and `+`. */
const COMPARISON = 1;
const IN = 2;
const ANY_OTHER = 3;
const LEVELS: Readonly<Record<string, number>> = { "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "^": 6 };
const COMPARISONS = words("= <> != < > <= >=");

interface Operand {
  text: string;
  /** Needs parentheses next to another operator: qualified operators all have the same precedence. */
  compound: boolean;
}

function expressionOf(parts: readonly Node[], isAlias: boolean): string {
  if (parts.length === 0) return "";
  let at = 0;

  function levelOf(part: Node | undefined): number {
    if (part === undefined) return 0;
    if (isWord(part, "in", "not")) return IN;
    if (part.kind === "word" && part.word === "operator") return ANY_OTHER;
    if (part.kind !== "operator") return 0;
    return COMPARISONS.has(part.text) ? COMPARISON : (LEVELS[part.text] ?? ANY_OTHER);
  }

  function operand(): Operand {
    const first = parts[at];
    const next = parts[at + 1];
    const isSign = isText(first, "-") && next !== undefined;
    const isNumber = isSign && next.kind === "other" && /^\d/.test(next.text);
    if (isSign && !isNumber) {
      at++;
      return { text: `(OPERATOR(pg_catalog.-) ${inner(operand())})`, compound: false };
    }
    const run: Node[] = [];
    // A star without a left operand means all columns.
    do run.push(parts[at++] as Node);
    while (
      at < parts.length &&
      (levelOf(parts[at]) === 0 || isText(run.at(-1), ".") || (isNumber && run.length === 1))
    );
    return { text: atoms(run, isAlias).trimStart(), compound: false };
  }

  function from(level: number): Operand {
    let left = operand();
    for (;;) {
      const operator = parts[at] as Leaf | undefined;
      const own = levelOf(operator);
      if (operator === undefined || own === 0 || own < level) return left;
      at++;
      if (own === IN) left = member(left, operator);
      else {
        const name = operator.kind === "word" ? node(parts[at++] as Node) : `(pg_catalog.${operator.text})`;
        left = { text: `${inner(left)} OPERATOR${name} ${inner(from(own + 1))}`, compound: true };
      }
    }
  }

  /** `x IN (a, b)` and `x NOT IN (a, b)`. */
  function member(left: Operand, operator: Leaf): Operand {
    const isNegated = operator.word === "not";
    if (isNegated) at++;
    const list = parts[at++];
    if (list?.kind !== "group") throw new SyntaxError("IN without a list");
    const of = sequence(list.parts);
    const how = isNegated ? "OPERATOR(pg_catalog.<>) ALL" : "OPERATOR(pg_catalog.=) ANY";
    return { text: `${inner(left)} ${how} (${isQuery(list) ? of : `ARRAY[${of}]`})`, compound: true };
  }

  const first = (parts[0] as Node).space;
  return first + from(0).text;
}

function inner({ text, compound }: Operand): string {
  return compound ? `(${text})` : text;
}

/** One operand: names, values, calls, casts. */
function atoms(run: readonly Node[], isAlias: boolean): string {
  let text = "";
  for (const [at, part] of run.entries()) {
    const before = run[at - 1];
    const next = run[at + 1];
    const own = node(part);
    const isQualified = isText(before, ".") || isText(next, ".");
    if (part.kind !== "group" && !isQualified && isFoundByPath(part, before, next, isAlias && at === 0)) {
      text += `${part.space}pg_catalog.${part.text}`;
    } else {
      text += own;
    }
  }
  return text;
}

function isFoundByPath(part: Leaf, before: Node | undefined, next: Node | undefined, isAlias: boolean): boolean {
  const isName = part.kind === "word" || part.text.startsWith('"');
  if (!isName) return false;
  if (isText(before, "::")) return !KEYWORD_TYPES.has(part.word);
  if (isWord(before, "collate")) return true;
  const isCall = next?.kind === "group" && next.open === "(";
  return (isCall && !isAlias && !NO_FUNCTIONS.has(part.word)) || part.word.startsWith("pg_");
}

function node(part: Node): string {
  if (part.kind !== "group") return part.space + part.text;
  const [first] = part.parts;
  if (/^case$/i.test(part.open) && !isWord(first, "when")) {
    throw new SyntaxError("CASE x WHEN looks up its operator by the search path: write CASE WHEN x =");
  }
  return part.space + part.open + sequence(part.parts) + part.close;
}

function isWord(part: Node | undefined, ...any: readonly string[]): boolean {
  return part?.kind === "word" && any.includes(part.word);
}

function isText(part: Node | undefined, text: string): boolean {
  return part !== undefined && part.kind !== "group" && part.text === text;
}

function isQuery({ parts }: Group): boolean {
  return isWord(parts[0], "select", "with", "values");
}
