import { randomBytes, scrypt, timingSafeEqual } from "node:crypto";

/** What OWASP recommends at least. 32 MB for each password that is checked now. */
const COST = { N: 32_768, r: 8, p: 3, maxmem: 67_108_864 };
const SALT_BYTES = 16;
const HASH_BYTES = 32;

export const MIN_PASSWORD = 8;
/** Longer ones only cost time. */
export const MAX_PASSWORD = 200;

/** A hash with its salt, to be stored: `scrypt$<salt>$<hash>`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  return `scrypt$${salt.toString("base64url")}$${(await derive(password, salt)).toString("base64url")}`;
}

/** Whether the password is the one of the hash. Without a hash it takes as long: then no one learns who is a member. */
export async function isPassword(password: string, stored: string | null): Promise<boolean> {
  const [, salt = "", hash = ""] = (stored ?? NO_MEMBER).split("$");
  const derived = await derive(password, Buffer.from(salt, "base64url"));
  return timingSafeEqual(derived, Buffer.from(hash, "base64url")) && stored !== null;
}

const NO_MEMBER = `scrypt$${"A".repeat(22)}$${"A".repeat(43)}`;

function derive(password: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize("NFC"), salt, HASH_BYTES, COST, (error, hash) =>
      error === null ? resolve(hash) : reject(error),
    );
  });
}
