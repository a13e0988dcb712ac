import { InvalidOptionError } from "holdfast";
import { optionKeys, refuseUnknownIn, type Duration } from "holdfast/pack";
import { refuseMissing, type Deletion, type TimeFormat } from "./rules.js";

/** Names that differ from the defaults. */
interface PresetTable {
  table?: string;
  times?: TimeFormat;
}

/** Expired sessions. */
export interface SessionsPreset extends PresetTable {
  /** Default `expires_at`. */
  expiresAt?: string;
}

/** Old deliveries of webhooks. */
export interface WebhookDeliveriesPreset extends PresetTable {
  /** Default `created_at`. */
  createdAt?: string;
  /** Default 168, which are seven days. The input `retention_hours` of a job overrides it. */
  retentionHours?: number;
}

/** Expired and revoked OAuth tokens, and authorization codes that have expired or were used a day ago. */
export interface OAuthPreset {
  tokens?: PresetTable & { expiresAt?: string; revokedAt?: string };
  codes?: PresetTable & { expiresAt?: string; usedAt?: string };
}

/** Expired magic links and password resets. */
export interface AuthPreset {
  magicLinks?: PresetTable & { expiresAt?: string };
  passwordResets?: PresetTable & { expiresAt?: string };
}

/** The clean-up jobs that come with the pack. `true`: with the default names of tables and columns. */
export interface Presets {
  /** The job `stale_session_cleanup`, every hour. Default table: `sessions`. */
  sessions?: true | SessionsPreset;
  /** The job `webhook_delivery_prune`, daily at 03:00 UTC. Default table: `webhook_deliveries`. */
  webhookDeliveries?: true | WebhookDeliveriesPreset;
  /** The job `expired_oauth_cleanup`, daily at 04:00 UTC. Default tables: `oauth_tokens` and `oauth_authorization_codes`. */
  oauth?: true | OAuthPreset;
  /** The job `expired_auth_cleanup`, daily at 05:00 UTC. Default tables: `magic_links` and `password_resets`. */
  auth?: true | AuthPreset;
}

/** A clean-up job. */
export interface CleanUp {
  type: string;
  schedule: { name: string; cron: string; timezone: string } | null;
  deletions: readonly { field: string; deletion: Deletion }[];
  /** For a job whose input `retention_hours` says which rows are old. */
  retentionHours: number | null;
}

const PRESET_KEYS = optionKeys<Presets>({ sessions: true, webhookDeliveries: true, oauth: true, auth: true });
const A_DAY: Duration = "1d";
const MAX_RETENTION_HOURS = 87_600;

/** The clean-up jobs of the presets that are switched on. */
export function readPresets(given: Presets, tablePrefix: string): CleanUp[] {
  refuseUnknownIn(given, PRESET_KEYS, "presets");
  const named = (table: string): string => tablePrefix + table;
  const found: CleanUp[] = [];
  if (given.sessions !== undefined) {
    const {
      table = named("sessions"),
      expiresAt = "expires_at",
      ...times
    } = optionsOf(
      given.sessions,
      "presets.sessions",
      optionKeys<SessionsPreset>({ table: true, times: true, expiresAt: true }),
    );
    found.push({
      type: "stale_session_cleanup",
      schedule: { name: "session_cleanup_hourly", cron: "0 * * * *", timezone: "UTC" },
      deletions: [{ field: "presets.sessions", deletion: { table, where: [{ column: expiresAt }], ...times } }],
      retentionHours: null,
    });
  }
  if (given.webhookDeliveries !== undefined) {
    const field = "presets.webhookDeliveries";
    const {
      table = named("webhook_deliveries"),
      createdAt = "created_at",
      retentionHours = 168,
      ...times
    } = optionsOf(
      given.webhookDeliveries,
      field,
      optionKeys<WebhookDeliveriesPreset>({ table: true, times: true, createdAt: true, retentionHours: true }),
    );
    checkRetention(retentionHours, `${field}.retentionHours`);
    found.push({
      type: "webhook_delivery_prune",
      schedule: { name: "webhook_delivery_prune_daily", cron: "0 3 * * *", timezone: "UTC" },
      deletions: [{ field, deletion: { table, where: [{ column: createdAt }], ...times } }],
      retentionHours,
    });
  }
  if (given.oauth !== undefined) {
    const field = "presets.oauth";
    const { tokens = {}, codes = {} } = optionsOf(
      given.oauth,
      field,
      optionKeys<OAuthPreset>({ tokens: true, codes: true }),
    );
    refuseUnknownIn(
      tokens,
      optionKeys<NonNullable<OAuthPreset["tokens"]>>({ table: true, times: true, expiresAt: true, revokedAt: true }),
      `${field}.tokens`,
    );
    refuseMissing(tokens, `${field}.tokens`);
    refuseUnknownIn(
      codes,
      optionKeys<NonNullable<OAuthPreset["codes"]>>({ table: true, times: true, expiresAt: true, usedAt: true }),
      `${field}.codes`,
    );
    refuseMissing(codes, `${field}.codes`);
    const { table = named("oauth_tokens"), expiresAt = "expires_at", revokedAt = "revoked_at", ...times } = tokens;
    const {
      table: codeTable = named("oauth_authorization_codes"),
      expiresAt: codeExpiresAt = "expires_at",
      usedAt = "used_at",
      ...codeTimes
    } = codes;
    found.push({
      type: "expired_oauth_cleanup",
      schedule: { name: "expired_oauth_cleanup_daily", cron: "0 4 * * *", timezone: "UTC" },
      deletions: [
        {
          field: `${field}.tokens`,
          deletion: {
            table,
            where: [
              { column: expiresAt, olderThan: A_DAY },
              { column: revokedAt, olderThan: A_DAY },
            ],
            ...times,
          },
        },
        {
          field: `${field}.codes`,
          deletion: {
            table: codeTable,
            where: [{ column: codeExpiresAt }, { column: usedAt, olderThan: A_DAY }],
            ...codeTimes,
          },
        },
      ],
      retentionHours: null,
    });
  }
  if (given.auth !== undefined) {
    const field = "presets.auth";
    const { magicLinks = {}, passwordResets = {} } = optionsOf(
      given.auth,
      field,
      optionKeys<AuthPreset>({ magicLinks: true, passwordResets: true }),
    );
    found.push({
      type: "expired_auth_cleanup",
      schedule: { name: "expired_auth_cleanup_daily", cron: "0 5 * * *", timezone: "UTC" },
      deletions: [
        { field: `${field}.magicLinks`, given: magicLinks, table: "magic_links" },
        { field: `${field}.passwordResets`, given: passwordResets, table: "password_resets" },
      ].map(({ field: path, given: names, table: usual }) => {
        refuseUnknownIn(
          names,
          optionKeys<NonNullable<AuthPreset["magicLinks"]>>({ table: true, times: true, expiresAt: true }),
          path,
        );
        refuseMissing(names, path);
        const { table = named(usual), expiresAt = "expires_at", ...times } = names;
        return { field: path, deletion: { table, where: [{ column: expiresAt }], ...times } };
      }),
      retentionHours: null,
    });
  }
  return found;
}

function optionsOf<Options extends object>(
  given: true | Options,
  field: string,
  keys: ReadonlySet<string>,
): Partial<Options> {
  if (given === true) return {};
  refuseUnknownIn(given, keys, field);
  refuseMissing(given, field);
  return given;
}

function checkRetention(hours: number, field: string): void {
  if (Number.isInteger(hours) && hours >= 1 && hours <= MAX_RETENTION_HOURS) return;
  throw new InvalidOptionError(field, `must be a whole number of hours from 1 to ${MAX_RETENTION_HOURS}`);
}
