// A store with the jobs of a shop in the last hour, an incident among them: for screenshots, and to look at the dashboard while
// working on it. The hour is run by the real engine under a fake clock, so everything on the pages adds up.
import { holdfast, job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { z } from "zod";

const MINUTE = 60_000;
const STEP_MS = 5_000;

/** Numbers that look random and are the same each time. @param {number} seed */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

class GmailApiError extends Error {
  name = "GmailApiError";
  code = "GMAIL_503";
  // Not the paths of the machine that makes the screenshots.
  stack = `GmailApiError: ${this.message}
    at historyOf (/app/src/mail/gmail.ts:41:11)
    at async syncMailbox (/app/src/mail/sync.ts:88:20)
    at async Object.run (/app/src/jobs/gmail-sync.ts:17:14)`;
}
class StripeInvalidRequestError extends Error {
  name = "StripeInvalidRequestError";
}
class SmtpError extends Error {
  name = "SmtpError";
}

/**
 * @param {{ store?: string, minutes?: number, perMinute?: number }} [options] `perMinute`: how many jobs a busy type gets
 */
export async function shop({ store = "sqlite::memory:", minutes = 60, perMinute = 60 } = {}) {
  const random = randomNumbers(7);
  const end = Date.now();
  const clock = fakeClock(end - minutes * MINUTE);
  const elapsed = () => minutes - (end - clock.now()) / MINUTE;
  // From minute 16 to 54 of 60, Gmail does not respond.
  const isIncident = () => elapsed() > minutes * 0.27 && elapsed() < minutes * 0.9;
  /** @param {number} ms */
  const take = (ms) => new Promise((resolve) => void clock.after(ms * (0.5 + random()), () => resolve(undefined)));

  const stripe = job({
    type: "stripe.webhook.process",
    queue: "webhooks",
    input: z.object({ event: z.string(), kind: z.string() }),
    retry: { maxAttempts: 5, backoff: { base: "20s" } },
    async run({ input }) {
      await take(120);
      if (random() < 0.01) throw new StripeInvalidRequestError(`No such customer: 'cus_${input.event.slice(-6)}'`);
      return { handled: input.kind };
    },
  });
  const receipt = job({
    type: "email.receipt",
    queue: "mail",
    input: z.object({ to: z.email(), order: z.object({ id: z.string(), total: z.number() }) }),
    retry: { maxAttempts: 3, backoff: { base: "30s" } },
    async run({ input, log }) {
      await take(240);
      log(`rendered the receipt of ${input.order.id}`);
      if (random() < 0.006) throw new SmtpError(`550 5.1.1 <${input.to}>: mailbox unavailable`);
      return { messageId: `<${input.order.id}@shop.example>` };
    },
  });
  const gmail = job({
    type: "gmail.sync",
    queue: "sync",
    input: z.object({
      account: z.email(),
      historyId: z.number(),
      accessToken: z.string(),
      labels: z.array(z.string()),
    }),
    retry: { maxAttempts: 3, backoff: { base: "20s", jitter: 0.2 } },
    async run({ input, log }) {
      log(`sync from history ${input.historyId}`);
      await take(isIncident() ? 2_800 : 400);
      if (isIncident() && random() < 0.8) {
        log("history.list: 503");
        const cause = new Error("GET gmail.googleapis.com/gmail/v1/users/me/history 503");
        cause.stack = `Error: ${cause.message}\n    at request (/app/src/http/client.ts:63:9)`;
        throw new GmailApiError("503 backendError: The service is currently unavailable", { cause });
      }
      return { messages: Math.floor(random() * 40) };
    },
  });
  const invoice = job({
    type: "invoice.render",
    queue: "billing",
    input: z.object({ invoice: z.string(), months: z.number() }),
    retry: { maxAttempts: 4, backoff: { base: "15s" } },
    async run({ progress }) {
      progress(0.4, "pages");
      await take(1_500);
      if (random() < 0.03) throw new Error("connect ECONNREFUSED 127.0.0.1:9200");
      return { pdf: "invoices/2026/11.pdf" };
    },
  });
  const stock = job({ type: "inventory.reindex", queue: "default", run: () => take(900) });
  const report = job({ type: "report.daily", queue: "reports", run: () => take(5_000) });
  const agent = job({
    type: "agent.brief",
    queue: "agents",
    input: z.object({ topic: z.string() }),
    async run({ progress }) {
      progress(0.3, "reading the sources");
      await take(20_000);
      progress(0.8, "writing");
      await take(8_000);
      return { words: 312 };
    },
  });
  const jobs = [stripe, receipt, gmail, invoice, stock, report, agent];
  const redact = ["**.accessToken"];
  const client = () => holdfast({ store, jobs, logger: false, clock, redact });
  const hf = await client();

  await hf.schedule("stock-sweep", { job: stock, every: "15m", overlap: "skip" });
  await hf.schedule("nightly-report", { job: report, cron: "30 2 * * MON-FRI", timezone: "Europe/Berlin" });
  await hf.schedule("agent-morning-brief", {
    job: agent,
    input: { topic: "orders of yesterday" },
    cron: "45 7 * * *",
    timezone: "America/New_York",
  });
  await hf.schedules.create("video-cleanup", { job: stock, cron: "0 4 * * SUN", timezone: "UTC", enabled: false });

  // In one process, but each worker takes its own queues.
  for (const [queues, concurrency] of /** @type {const} */ ([
    [["webhooks", "mail", "default"], 16],
    [["sync"], 16],
    [["billing", "reports"], 8],
    [["agents"], 8],
  ])) {
    hf.work({ queues: [...queues], concurrency, poll: "2s" });
  }

  let order = 4_000;
  const user = () => `u-${1_000 + Math.floor(random() * 400)}`;
  const count = (/** @type {number} */ perHourShare) => {
    const wanted = (perMinute * perHourShare * STEP_MS) / MINUTE;
    return Math.floor(wanted) + (random() < wanted % 1 ? 1 : 0);
  };
  /** The jobs of five seconds. */
  async function enqueue() {
    for (let n = count(1); n > 0; n--) {
      await hf.enqueue(stripe, { event: `evt_${(order * 7919).toString(36)}`, kind: "invoice.paid" }, { user: user() });
    }
    for (let n = count(0.7); n > 0; n--) {
      const id = `o-${order++}`;
      await hf.enqueue(
        receipt,
        { to: `${user()}@example.com`, order: { id, total: Math.round(random() * 20_000) / 100 } },
        { user: user(), tags: ["shop", random() < 0.5 ? "eu" : "us"] },
      );
    }
    for (let n = count(0.6); n > 0; n--) {
      const who = user();
      await hf.enqueue(
        gmail,
        {
          account: `${who}@example.com`,
          historyId: 90_071_992_547_409,
          accessToken: "ya29.secret",
          labels: ["INBOX", "Orders/2026"],
        },
        { user: who, tags: ["mailbox"], unique: { key: `sync:${who}:${order}:${n}`, scope: "live" } },
      );
    }
    for (let n = count(0.2); n > 0; n--)
      await hf.enqueue(invoice, { invoice: `2026-${order}`, months: 1 }, { user: user() });
    if (random() < 0.03) await hf.enqueue(agent, { topic: "refunds" }, { user: user() });
    if (random() < 0.03) await hf.enqueue(report, undefined, { delay: random() < 0.5 ? "20m" : 0 });
    // No worker of this process takes them.
    if (random() < 0.08) await hf.enqueueNamed("video.encode", { file: `clip-${order}.mov` }, { queue: "media" });
  }

  for (let at = 0; at < minutes * MINUTE; at += STEP_MS) {
    if (at === Math.round((minutes * MINUTE) / 4 / STEP_MS) * STEP_MS) await hf.pause("reports");
    await enqueue();
    await clock.advance(STEP_MS);
  }
  for (let n = 0; n < 40; n++) {
    await hf.enqueue(
      receipt,
      { to: "later@example.com", order: { id: `o-${order++}`, total: 12 } },
      { delay: `${n + 1}m` },
    );
  }

  /** Goes on with the real time. Returns a function that stops it. */
  function live() {
    let isStopped = false;
    let lastStep = clock.now();
    const run = async () => {
      while (!isStopped) {
        const now = Date.now();
        if (lastStep + STEP_MS <= now) {
          await enqueue();
          lastStep += STEP_MS;
        }
        // Not past the next step, and never ahead of the time: so jobs are seen while they run.
        const next = Math.min(now, lastStep + STEP_MS);
        if (next > clock.now()) await clock.advance(next - clock.now());
        if (next === now) await new Promise((resolve) => void setTimeout(resolve, 200));
      }
    };
    const running = run();
    return async () => {
      isStopped = true;
      await running;
    };
  }
  return { hf, clock, live };
}
