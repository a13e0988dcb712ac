import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { Clock } from "../../clock.js";
import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull, durationMs, type Duration } from "../../duration.js";
import { HoldfastError, InvalidOptionError, TooManyTokensError } from "../../errors.js";
import { readName, refuseUnknown, show } from "../../options.js";
import { isTokenRole, TOKEN_ROLES, type TokenRole } from "../../access/roles.js";
import type { TokenRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

export interface TokenOptions {
  /** What it is for; the audit log names who used it by this, and by the token's id. */
  name: string;
  role: TokenRole;
  /** Whose jobs it sees and touches: with the role `user`, and only with that. */
  user?: string;
  /** Refused this long from now on. Left out: never. */
  expiresIn?: Duration;
}
const TOKEN_FIELDS: ReadonlySet<string> = new Set(["name", "role", "user", "expiresIn"]);

/** A token as it is listed. */
export interface ApiToken {
  id: string;
  name: string;
  role: TokenRole;
  user: string | null;
  createdAt: Date;
  expiresAt: Date | null;
}

/** A token just made. Its text is told this once: the store knows only a hash of it. */
export interface NewToken extends ApiToken {
  token: string;
}

/** Who came with a token that counts. */
export type TokenIdentity = Omit<ApiToken, "createdAt">;

// A tool that looks for secrets in places where they should not be knows ours by this.
const FORM = /^hf_([0-9a-f]{16})_([0-9A-Za-z]{43})$/;
const ID_BYTES = 8;
const SECRET_BYTES = 32;
const SECRET_LENGTH = 43;
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// Two random ids of 64 bits are the same once in a very long while.
const MOST_TRIES = 5;

/** Tokens of the API. Reached as `hf.tokens`. */
export class Tokens {
  readonly #open: () => EngineContext;

  /** @internal */
  constructor(open: () => EngineContext) {
    this.#open = open;
  }

  /**
   * Makes a token. Throws `TooManyTokensError` where there are as many as may be and none of them has expired.
   *
   * ```ts
   * const { token } = await hf.tokens.create({ name: "deploy", role: "operator", expiresIn: "30d" });
   * ```
   */
  async create(options: TokenOptions): Promise<NewToken> {
    const { store, clock } = this.#open();
    const given = readOptions(options);
    const now = clock.now();
    const expiresAt = given.expiresInMs === null ? null : now + given.expiresInMs;
    const secret = newSecret();
    for (let trial = 0; trial < MOST_TRIES; trial++) {
      const id = randomBytes(ID_BYTES).toString("hex");
      const { name, role, user } = given;
      const hash = hashOf(secret).toString("hex");
      const record: TokenRecord = { id, name, hash, role, user, createdAt: now, expiresAt };
      const answer = await store.putToken(record);
      if (answer === "put") return { ...listed(record), token: `hf_${id}_${secret}` };
      if (answer === "full" && (await this.#removeExpired()) === 0) throw new TooManyTokensError(LIMITS.tokens);
    }
    throw new HoldfastError("STORE_ERROR", "the store took none of the ids that were tried for a token");
  }

  /** Who a token stands for; null if it is none, was revoked or has expired. */
  async check(token: string): Promise<TokenIdentity | null> {
    const { store, clock } = this.#open();
    const parts = partsOf(token);
    const record = parts === null ? null : await store.getToken(parts.id);
    if (parts === null || record === null || !isRight(record, parts.secret, clock.now())) return null;
    return identityOf(record);
  }

  /** @internal Those that count now, to be asked again and again without asking the store. */
  async known(): Promise<KnownTokens> {
    const { store, clock } = this.#open();
    return new KnownTokens(await store.listTokens(), clock);
  }

  /** @internal Who a token stands for that was checked before; null if it was revoked or has expired since. */
  async current(id: string): Promise<TokenIdentity | null> {
    const { store, clock } = this.#open();
    const record = await store.getToken(id);
    return record === null || hasExpired(record, clock.now()) ? null : identityOf(record);
  }

  /** All of them, oldest first, those that have expired included. */
  async list(): Promise<ApiToken[]> {
    return (await this.#open().store.listTokens()).map(listed);
  }

  /** Takes a token back, at once and in every process. False: there was none with this id. */
  async revoke(id: string): Promise<boolean> {
    const { store } = this.#open();
    if (typeof id !== "string" || !/^[0-9a-f]{16}$/.test(id)) {
      throw new InvalidOptionError(
        "id",
        "is not the id of a token, which hf.tokens.list() shows; the token itself is not it",
      );
    }
    return store.removeToken(id);
  }

  /** Only when there is no room: until then it may be seen that they were there. */
  async #removeExpired(): Promise<number> {
    const { store, clock } = this.#open();
    const expired = (await store.listTokens()).filter((record) => hasExpired(record, clock.now()));
    for (const { id } of expired) await store.removeToken(id);
    return expired.length;
  }
}

/** Tokens as they were when they were read. */
export class KnownTokens {
  readonly #records: ReadonlyMap<string, TokenRecord>;
  readonly #clock: Clock;

  constructor(records: readonly TokenRecord[], clock: Clock) {
    this.#records = new Map(records.map((record) => [record.id, record]));
    this.#clock = clock;
  }

  /** Whether any of them still counts. */
  get any(): boolean {
    return [...this.#records.values()].some((record) => !hasExpired(record, this.#clock.now()));
  }

  /** Whether this one was right. It may have been revoked since. */
  has(token: string): boolean {
    const parts = partsOf(token);
    const record = parts === null ? undefined : this.#records.get(parts.id);
    return parts !== null && record !== undefined && isRight(record, parts.secret, this.#clock.now());
  }
}

function listed({ id, name, role, user, createdAt, expiresAt }: TokenRecord): ApiToken {
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
  const { createdAt: _createdAt, ...identity } = listed(record);
  return identity;
}

interface ReadOptions {
  name: string;
  role: TokenRole;
  user: string | null;
  expiresInMs: number | null;
}

function readOptions(options: TokenOptions): ReadOptions {
  refuseUnknown(options, TOKEN_FIELDS, "a token");
  const { role, expiresIn } = options;
  const name = readName(options.name, "name", LIMITS.tokenNameLength);
  if (!isTokenRole(role)) throw new InvalidOptionError("role", `${show(role)} is none of ${TOKEN_ROLES.join(", ")}`);
  if (role !== "user" && options.user !== undefined) {
    throw new InvalidOptionError("user", `goes with the role user only, and not with ${role}`);
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

function isRight(record: TokenRecord, secret: string, now: number): boolean {
  return isSame(record.hash, hashOf(secret)) && !hasExpired(record, now);
}

/** 256 random bits in letters and digits, so that a double click takes the whole token. */
function newSecret(): string {
  let left = BigInt(`0x${randomBytes(SECRET_BYTES).toString("hex")}`);
  let text = "";
  while (text.length < SECRET_LENGTH) {
    text = `${DIGITS[Number(left % 62n)]}${text}`;
    left /= 62n;
  }
  return text;
}

/** A secret of 256 random bits cannot be guessed, so that a quick hash is as good as a slow one. */
function hashOf(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}

/** Takes as long wherever the two differ. */
function isSame(stored: string, given: Buffer): boolean {
  const known = Buffer.from(stored, "hex");
  return known.length === given.length && timingSafeEqual(known, given);
}

function hasExpired({ expiresAt }: TokenRecord, now: number): boolean {
  return expiresAt !== null && expiresAt <= now;
}
