import type { Place } from "../bed.js";
import { startRole } from "../process.js";
import type { Steady } from "../roles/steady.js";
import { SENT_PATH, type Sent } from "./sent.js";

/** The changes of state per second that an open page must show. */
export const TRANSITIONS = 50;
// What a page and a worker do when they start.
const SETTLE_MS = 5_000;

/** How long to wait before a page is watched for so long. */
export function settleMs(openMs: number): number {
  return Math.min(SETTLE_MS, openMs);
}

export interface DashboardServer {
  origin: string;
  /** What it has sent to its store so far. */
  sent(): Promise<Sent>;
  stop(): Promise<void>;
}

/** Starts a server of the dashboard in a process of its own, without a worker. */
export async function startDashboard({ url }: Place): Promise<DashboardServer> {
  let listens: (port: number) => void = () => {};
  const listening = new Promise<number>((resolve) => (listens = resolve));
  const server = startRole("dashboard", { url }, (port) => listens(port));
  await server.ready;
  server.go();
  const port = await Promise.race([listening, server.result]);
  if (port === undefined) throw new Error("the server has ended");
  const origin = `http://127.0.0.1:${port}`;
  return {
    origin,
    sent: async () => (await (await fetch(`${origin}${SENT_PATH}`)).json()) as Sent,
    async stop() {
      server.stop();
      await server.result;
    },
  };
}

/** Starts jobs that run at a steady pace in another process. Returns a function that ends it. */
export async function startSteadyJobs({ url }: Place): Promise<() => Promise<Steady>> {
  let begins: () => void = () => {};
  const beginning = new Promise<void>((resolve) => (begins = resolve));
  const jobs = startRole("steady", { url, transitionsPerSecond: TRANSITIONS }, () => begins());
  await jobs.ready;
  jobs.go();
  await Promise.race([beginning, jobs.result]);
  return async () => {
    jobs.stop();
    return jobs.result;
  };
}
