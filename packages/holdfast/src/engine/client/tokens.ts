import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../clock.js";
import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull, durationMs, type Duration } from "../../duration.js";
import { HoldfastError, InvalidOptionError, TooManyTokensError } from "../../errors.js";
import { optionKeys, readName, refuseUnknown, show } from "../../options.js";
import { isTokenRole, TOKEN_ROLES, type TokenRole } from "../../access/roles.js";
import type { TokenRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

export interface TokenOptions {
  /** What it is for; audit entries show it, together with the token's id. */
  name: string;
  role: TokenRole;
  /** The only user whose jobs it can see and change. Required with the role `user`, and only allowed with it. */
  user?: string;
  /** Expires after this duration. Default: never. */
  expiresIn?: Duration;
}
const TOKEN_KEYS: ReadonlySet<string> = optionKeys<TokenOptions>({
  name: true,
  role: true,
  user: true,
  expiresIn: true,
});

/** A token, without its secret. */
export interface ApiToken {
  id: string;
  name: string;
  role: TokenRole;
  user: string | null;
  createdAt: Date;
  expiresAt: Date | null;
}

/** A new token. The secret is returned only here: the store has just its hash. */
export interface NewToken extends ApiToken {
  token: string;
}

/** The identity that a valid token proves. */
export type TokenIdentity = Omit<ApiToken, "createdAt">;

// A fixed prefix lets secret scanners recognize tokens.
const FORM = /^hf_([0-9a-f]{16})_([0-9A-Za-z]{43})$/;
const ID_BYTES = 8;
const SECRET_BYTES = 32;
const SECRET_LENGTH = 43;
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// Random ids of 64 bits practically never collide.
const MAX_ID_ATTEMPTS = 5;

/** API tokens: `hf.tokens`. */
export interface Tokens {
  /**
   * Creates a token. Throws `TooManyTokensError` if the limit is reached and none of the tokens has expired.
   *
   * ```ts
   * const { token } = await hf.tokens.create({ name: "deploy", role: "operator", expiresIn: "30d" });
   * ```
   */
  create(options: TokenOptions): Promise<NewToken>;
  /** The identity of a token; null if it is invalid, revoked or expired. */
  check(token: string): Promise<TokenIdentity | null>;
  /** All tokens, oldest first, including expired ones. */
  list(): Promise<ApiToken[]>;
  /** Revokes a token immediately, in every process. False if no token has this id. */
  revoke(id: string): Promise<boolean>;
}

export function newTokens(requireOpen: () => EngineContext): Tokens {
  return {
    async create(options) {
      const { store, clock } = requireOpen();
      const { name, role, user, expiresInMs } = readOptions(options);
      const now = clock.now();
      const expiresAt = expiresInMs === null ? null : now + expiresInMs;
      const secret = newSecret();
      const hash = hashOf(secret).toString("hex");
      for (let attempt = 0; attempt < MAX_ID_ATTEMPTS; attempt++) {
        const id = randomBytes(ID_BYTES).toString("hex");
        const record: TokenRecord = { id, name, hash, role, user, createdAt: now, expiresAt };
        const result = await store.putToken(record);
        if (result === "put") return { ...tokenOf(record), token: `hf_${id}_${secret}` };
        if (result === "full" && (await removeExpired(requireOpen())) === 0)
          throw new TooManyTokensError(LIMITS.tokens);
      }
      throw new HoldfastError("STORE_ERROR", `the store refused ${MAX_ID_ATTEMPTS} different ids for a token`);
    },

    async check(token) {
      const { store, clock } = requireOpen();
      const parts = partsOf(token);
      const record = parts === null ? null : await store.getToken(parts.id);
      if (parts === null || record === null || !isValid(record, parts.secret, clock.now())) return null;
      return identityOf(record);
    },

    async list() {
      return (await requireOpen().store.listTokens()).map(tokenOf);
    },

    async revoke(id) {
      const { store } = requireOpen();
      if (typeof id !== "string" || !/^[0-9a-f]{16}$/.test(id)) {
        throw new InvalidOptionError("id", "is not a token id; pass the id that hf.tokens.list() shows, not the token");
      }
      return store.removeToken(id);
    },
  };
}

/** All tokens, for checks that must not read the store every time. For the admin API. */
export async function readKnownTokens({ store, clock }: EngineContext): Promise<KnownTokens> {
  return new KnownTokens(await store.listTokens(), clock);
}

/** The identity of a token that was checked earlier; null if it was revoked or has expired since. For the admin API. */
export async function currentIdentity({ store, clock }: EngineContext, id: string): Promise<TokenIdentity | null> {
  const record = await store.getToken(id);
  return record === null || hasExpired(record, clock.now()) ? null : identityOf(record);
}

/** Called only when the limit is reached: until then expired tokens stay visible in the list. */
async function removeExpired({ store, clock }: EngineContext): Promise<number> {
  const expired = (await store.listTokens()).filter((record) => hasExpired(record, clock.now()));
  for (const { id } of expired) await store.removeToken(id);
  return expired.length;
}

/** A snapshot of all tokens. */
export class KnownTokens {
  readonly #records: ReadonlyMap<string, TokenRecord>;
  readonly #clock: Clock;

  constructor(records: readonly TokenRecord[], clock: Clock) {
    this.#records = new Map(records.map((record) => [record.id, record]));
    this.#clock = clock;
  }

  /** Whether there is any, valid or expired. */
  get any(): boolean {
    return this.#records.size > 0;
  }

  /** Whether the token was valid when the snapshot was read. It may have been revoked since. */
  has(token: string): boolean {
    const parts = partsOf(token);
    const record = parts === null ? undefined : this.#records.get(parts.id);
    return parts !== null && record !== undefined && isValid(record, parts.secret, this.#clock.now());
  }

  /** The identity of a token that was checked earlier; null if it had been revoked when the snapshot was read, or has expired. */
  identityOf(id: string): TokenIdentity | null {
    const record = this.#records.get(id);
    return record === undefined || hasExpired(record, this.#clock.now()) ? null : identityOf(record);
  }
}

function tokenOf({ id, name, role, user, createdAt, expiresAt }: TokenRecord): ApiToken {
  return {
    id,
    name,
    role,
    user,
    createdAt: dateOf(createdAt),
    expiresAt: dateOrNull(expiresAt),
  };
}

function identityOf(record: TokenRecord): TokenIdentity {
  const { createdAt: _createdAt, ...identity } = tokenOf(record);
  return identity;
}

interface ReadOptions {
  name: string;
  role: TokenRole;
  user: string | null;
  expiresInMs: number | null;
}

function readOptions(options: TokenOptions): ReadOptions {
  refuseUnknown(options, TOKEN_KEYS, "a token");
  const { role, expiresIn } = options;
  const name = readName(options.name, "name", LIMITS.tokenNameLength);
  if (!isTokenRole(role)) throw new InvalidOptionError("role", `${show(role)} is none of ${TOKEN_ROLES.join(", ")}`);
  if (role !== "user" && options.user !== undefined) {
    throw new InvalidOptionError("user", `is only allowed with the role user, not with ${role}`);
  }
  const user = role === "user" ? readName(options.user, "user", LIMITS.userLength) : null;
  const expiresInMs = expiresIn === undefined ? null : durationMs(expiresIn, "expiresIn");
  if (expiresInMs === 0) throw new InvalidOptionError("expiresIn", "must be longer than 0; leave it out for never");
  return { name, role, user, expiresInMs };
}

function partsOf(token: unknown): { id: string; secret: string } | null {
  const [, id, secret] = (typeof token === "string" ? FORM.exec(token) : null) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

function isValid(record: TokenRecord, secret: string, now: number): boolean {
  return isSame(record.hash, hashOf(secret)) && !hasExpired(record, now);
}

/** 256 random bits as letters and digits, so that a double click selects the whole token. */
function newSecret(): string {
  let left = BigInt(`0x${randomBytes(SECRET_BYTES).toString("hex")}`);
  let text = "";
  while (text.length < SECRET_LENGTH) {
    text = `${DIGITS[Number(left % 62n)]}${text}`;
    left /= 62n;
  }
  return text;
}

/** A fast hash is enough: a secret of 256 random bits cannot be guessed, however many guesses a second an attacker makes. */
function hashOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Compares in constant time. */
function isSame(stored: string, given: Buffer): boolean {
  const known = Buffer.from(stored, "hex");
  return known.length === given.length && timingSafeEqual(known, given);
}

function hasExpired({ expiresAt }: TokenRecord, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}
