import type { Logger } from "holdfast";
import { optionKeys, refuseUnknown } from "holdfast/pack";
import { formatAddress } from "../address.js";
import { readPort } from "../options.js";
import type { MailTransport } from "../transport.js";

/** Options of {@link log}. */
export interface LogOptions {
  /** Default: standard output. */
  logger?: Pick<Logger, "info">;
}

const OPTIONS = optionKeys<LogOptions>({ logger: true });

const stdout: Pick<Logger, "info"> = {
  info: (fields, message) => console.log(`${message}\n${Object.entries(fields).map(showField).join("\n")}\n`),
};

/**
 * Sends nothing, and logs each mail with its addresses and bodies instead. For development only: the bodies may contain secrets.
 *
 * ```ts
 * const post = mail({ transport: log(), from: "hello@club.example" });
 * ```
 */
export function log(options: LogOptions = {}): MailTransport {
  refuseUnknown(options, OPTIONS, "log");
  const logger = readPort(options.logger ?? stdout, "logger", ["info"], "pass a logger such as pino's");
  return {
    async send({ from, to, cc, bcc, subject, textBody, htmlBody }, { idempotencyKey, signal }) {
      signal.throwIfAborted();
      const all = [...to, ...cc, ...bcc];
      logger.info(
        {
          from: formatAddress(from),
          to: all.map(formatAddress).join(", "),
          subject,
          body: textBody ?? htmlBody ?? "",
        },
        "mail (not sent)",
      );
      return { id: idempotencyKey, accepted: all.map(({ address }) => address), rejected: [] };
    },
  };
}

function showField([name, value]: [string, unknown]): string {
  return name === "body" ? `\n${String(value)}` : `  ${name}: ${String(value)}`;
}
