import { command, type Command } from "../parse/command.js";
import { readPayload } from "../parse/payload.js";
import { CONNECTION_FLAGS, withAdmin } from "../store/admin-connection.js";

export const emitCommand: Command = command({
  name: "emit",
  summary: "Emit an event that steps of jobs wait for.",
  about:
    "Jobs that wait for the event continue. It is kept for jobs that wait for it later. The first event of a name wins: another one changes nothing.",
  arguments: {
    event: { kind: "text", description: "The name of the event." },
    payload: { kind: "json", stdin: true, optional: true, description: "Payload as JSON, or - to read it from stdin." },
  },
  flags: {
    keep: { kind: "duration", description: "How long it is kept for jobs that wait for it later. Default: 7d." },
    ...CONNECTION_FLAGS,
  },
  examples: [{ line: `emit paid:o-17 '{"by":"ada"}'`, description: "The order o-17 was paid." }],
  async run(context, { flags, args }) {
    const payload = await readPayload(context, args.payload);
    await withAdmin(context, { ...flags, names: { event: "<event>", keep: "--keep" } }, async (client) => {
      const emitted = await client.events.emit({
        event: args.event,
        ...(payload !== undefined && { payload }),
        ...(flags.keep !== undefined && { keep: flags.keep }),
      });
      context.output.result(emitted, (writer) =>
        writer.line(
          emitted.first ? `emitted ${emitted.event}` : `${emitted.event} was emitted before; nothing changed`,
        ),
      );
    });
  },
});
