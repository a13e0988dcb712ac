/** An address with its password hidden. One that is misspelt may carry a password all the same. */
export function hideSecret(text: string): string {
  return text
    .replace(/^([a-z][\w+.-]*:(?:\/\/)?[^:/@?#]*):.*@/is, "$1:***@")
    .replaceAll(/([?&](?:password|secret|token)=)[^&#]*/gi, "$1***");
}
