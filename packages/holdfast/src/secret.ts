/** Names of parameters that hold what nobody may read. A name with escapes in it may be one of them. */
const SECRET = "(?:pass|pwd|secret|token|key|%)";
const IN_QUERY = new RegExp(`([?&][^=&?]*${SECRET}[^=&?]*=)[^&]*`, "gis");
/** As libpq takes it: `host=db password='a b'`. */
const AS_KEYWORD = new RegExp(
  `((?:^|[\\s;"'])\\w*${SECRET}\\w*\\s*=\\s*)(?:'(?:[^'\\\\]|\\\\.)*'?|(?:\\\\.|\\S)*)`,
  "gis",
);
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
  const shown = text.replaceAll(IN_QUERY, "$1***").replaceAll(AS_KEYWORD, "$1***");
  // The password may have looked like a parameter, or the parameter have had an @.
  if (shown.split("@").length !== text.split("@").length) return `${scheme}***`;
  const at = shown.lastIndexOf("@");
  if (at < scheme.length) return shown;
  return `${scheme}${hideUser(shown.slice(scheme.length, at))}${shown.slice(at)}`;
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
