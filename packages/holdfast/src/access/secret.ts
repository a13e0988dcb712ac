/**
 * The only parameters of an address whose values are shown. Any other may carry a secret: `options` sets whatever the server knows, and
 * a driver may come to know more.
 */
const SHOWN: ReadonlySet<string> = new Set(
  (
    "host hostaddr port user dbname database server schema ssl sslmode sslrootcert application_name " +
    "connect_timeout statement_timeout region endpoint shards marginms slack requests answerms"
  ).split(" "),
);
/** What their values are made of; one with anything else in it, an `@` or an escape say, is not what its name says. */
const PLAIN = /^[\w.:/-]*$/;
const IN_QUERY = /([?&])([^=&?]*)(?:=([^&]*))?/g;
/** As libpq takes it: `host=db password='a b'`. */
const AS_KEYWORD = /((?:^|[\s;"'])(\w+)\s*=\s*)('(?:[^'\\]|\\.)*'?|(?:\\.|\S)*)/gs;
// A colon or a slash may be missing, but `ada:` is no scheme: what follows it is a password.
const SCHEME = /^["'`\s]*(?:[a-z][\w+.-]*)?(?::\/+|\/\/+|(?<=^["'`\s]*postgres(?:ql)?):)/i;

/**
 * The address of a store with its password hidden, for whoever reads logs and lists. One that is misspelt may carry a password all
 * the same, so that what cannot be told apart from one is hidden too.
 */
export function hideSecret(text: string): string {
  // The path of a file has no password, and may have any character.
  if (/^sqlite:/i.test(text)) return text;
  const [scheme = ""] = SCHEME.exec(text) ?? [];
  const shown = text.replaceAll(IN_QUERY, hideParameter).replaceAll(AS_KEYWORD, hideKeyword);
  // The password may have looked like a parameter, or the parameter have had an @.
  if (shown.split("@").length !== text.split("@").length) return `${scheme}***`;
  const at = shown.lastIndexOf("@");
  if (at < scheme.length) return shown;
  return `${scheme}${hideUser(shown.slice(scheme.length, at))}${shown.slice(at)}`;
}

function hideParameter(all: string, sign: string, name: string, value: string | undefined): string {
  // What has an @ and no value is part of a password.
  if (value === undefined) return name === "" || name.includes("@") ? all : `${sign}***`;
  return isShown(name, value) ? all : `${sign}${name}=***`;
}

function hideKeyword(all: string, begin: string, name: string, value: string): string {
  return isShown(name, value) ? all : `${begin}***`;
}

function isShown(name: string, value: string): boolean {
  return SHOWN.has(name.toLowerCase()) && PLAIN.test(value);
}

/** Whether an address has a name or password in it, as `https://ada:secret@example.com`. */
export function namesUser(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}

/** A plain name may be seen, and nothing behind it. */
function hideUser(user: string): string {
  const [, name, password] = /^([^:/@?#\s"'`]*)(:.*)?$/s.exec(user) ?? [];
  if (name === undefined) return "***";
  return password === undefined ? name : `${name}:***`;
}
