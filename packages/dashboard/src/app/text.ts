// What views read and write as text. Pure.

/** A value of a filter as it is typed: in quotation marks where it would be read as something else. */
export function quote(value: string, always = false): string {
  const isPlain = value !== "" && !/[\s",*~<>\\]/.test(value);
  return isPlain && !always ? value : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/** For a part of a regular expression that stands for itself. */
export function literal(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

export function isJobId(text: string): boolean {
  return /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text);
}
