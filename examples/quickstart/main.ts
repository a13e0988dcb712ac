import { holdfast, job } from "holdfast";
import { z } from "zod";

const welcome = job({
  type: "email.welcome",
  input: z.object({ to: z.email() }),
  run({ input, job: { id } }) {
    return { sent: input.to, messageId: `msg-${id.slice(-6)}` };
  },
});

const sync = job({
  type: "crm.sync",
  input: z.object({ customer: z.string() }),
  retry: { maxAttempts: 5, backoff: { base: "200ms" } },
  run({ input, job: { attempt } }) {
    if (attempt < 3) throw new Error(`CRM is busy (attempt ${attempt})`);
    return { synced: input.customer };
  },
});

const hf = await holdfast({ store: "sqlite:quickstart.db", jobs: [welcome, sync], logger: false });
const began = Date.now();
const print = (text: string) => console.log(`${String(Date.now() - began).padStart(5)} ms  ${text}`);

hf.on("completed", ({ type, attempt, output }) => print(`✓ ${type}, attempt ${attempt}: ${JSON.stringify(output)}`));
hf.on("failed", ({ type, error, retryInMs }) => print(`↻ ${type} failed: ${error.message}; retry in ${retryInMs} ms`));
hf.work();

const first = await hf.enqueue(welcome, { to: "ada@example.com" });
const flaky = await hf.enqueue(sync, { customer: "Lovelace Ltd" });
const later = await hf.enqueue(welcome, { to: "grace@example.com" }, { delay: "1s", unique: "welcome:grace" });
const again = await hf.enqueue(welcome, { to: "grace@example.com" }, { unique: "welcome:grace" });
print(`Enqueued 3 jobs. The fourth call has the unique key of the third job. Duplicate: ${again.duplicate}.`);

await Promise.all([first, flaky, later].map(({ id }) => hf.result(id, { timeout: "30s" })));
const { completed } = (await hf.stats()).states;
print(`All jobs are completed. quickstart.db now holds ${completed} completed jobs.`);
await hf.close();
