/**
 * The only URL parameters whose values are shown. Any other may contain a secret: `options` can set any server parameter, and a new
 * version of a driver may add more.
 */
const SHOWN: ReadonlySet<string> = new Set(
  (
    "host hostaddr port user dbname database server schema ssl sslmode sslrootcert application_name " +
    "connect_timeout statement_timeout region endpoint shards marginms slack requests requesttimeoutms"
  ).split(" "),
);
/** Characters allowed in their values. A value with any other character, such as `@` or an escape, may be part of a password. */
const PLAIN = /^[\w.:/-]*$/;
const IN_QUERY = /([?&])([^=&?]*)(?:=([^&]*))?/g;
/** The keyword form of libpq: `host=db password='a b'`. */
const AS_KEYWORD = /((?:^|[\s;"'])(\w+)\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|\S)*)/gs;
// A colon or a slash may be missing, but `ada:` is not a scheme: a password follows it.
const SCHEME = /^["'`\s]*(?:[a-z][\w+.-]*)?(?::\/+|\/\/+|(?<=^["'`\s]*postgres(?:ql)?):)/i;

/**
 * Hides the password in a store URL, for logs and lists. A misspelled URL may also contain a password, so everything that could be one
 * is hidden too.
 */
export function hideSecret(text: string): string {
  // A file path has no password and may contain any character.
  if (/^sqlite:/i.test(text)) return text;
  const [scheme = ""] = SCHEME.exec(text) ?? [];
  const shown = text.replaceAll(IN_QUERY, hideParameter).replaceAll(AS_KEYWORD, hideKeyword);
  // An @ disappeared: the password looked like a parameter, or a parameter contained an @.
  if (shown.split("@").length !== text.split("@").length) return `${scheme}***`;
  const at = shown.lastIndexOf("@");
  if (at < scheme.length) return shown;
  return `${scheme}${hideUser(shown.slice(scheme.length, at))}${shown.slice(at)}`;
}

function hideParameter(all: string, sign: string, name: string, value: string | undefined): string {
  // A name with an @ and without a value is part of a password.
  if (value === undefined) return name === "" || name.includes("@") ? all : `${sign}***`;
  return isShown(name, value) ? all : `${sign}${name}=***`;
}

function hideKeyword(all: string, begin: string, name: string, value: string): string {
  return isShown(name, value) ? all : `${begin}***`;
}

function isShown(name: string, value: string): boolean {
  return SHOWN.has(name.toLowerCase()) && PLAIN.test(value);
}

/** Whether a URL contains a user name or password, such as `https://ada:secret@example.com`. */
export function namesUser(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}

/** Shows the user name if it is plain, and hides everything after it. */
function hideUser(user: string): string {
  const [, name, password] = /^([^:/@?#\s"'`]*)(:.*)?$/s.exec(user) ?? [];
  if (name === undefined) return "***";
  return password === undefined ? name : `${name}:***`;
}
