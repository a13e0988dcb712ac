import type { PostgresStore } from "holdfast/postgres";
import type { Server } from "./server.js";
import { openOnOne } from "./scene.js";

/** A node of a query plan. */
export interface PlanNode {
  "Node Type": string;
  Operation?: string;
  "Relation Name"?: string;
  "Subplan Name"?: string;
  "Actual Rows"?: number;
  "Shared Hit Blocks"?: number;
  "Shared Read Blocks"?: number;
  Plans?: PlanNode[];
}

export interface Explained {
  store: PostgresStore;
  schema: string;
  /** The executed plans of the statements that `work` causes, without the occasional read of all lanes. */
  plansOf: (work: () => Promise<unknown>) => Promise<PlanNode[]>;
}

/** A store on one connection that reports its query plans by auto_explain. */
export async function explained(server: Server): Promise<Explained> {
  const { store, schema, pool } = await openOnOne(server);
  const notices: string[] = [];
  const client = await pool.connect();
  client.on("notice", ({ message }) => void notices.push(message ?? ""));
  await client.query("LOAD 'auto_explain'");
  for (const setting of ["log_min_duration = 0", "log_analyze = on", "log_buffers = on", "log_timing = off"]) {
    await client.query(`SET auto_explain.${setting}`);
  }
  await client.query("SET auto_explain.log_format = json; SET auto_explain.log_parameter_max_length = 0");
  client.release();
  return {
    store,
    schema,
    async plansOf(work) {
      await pool.query("SET client_min_messages = log");
      notices.length = 0;
      await work();
      await pool.query("SET client_min_messages = notice");
      return notices
        .filter((message) => message.includes("plan:\n") && !message.includes("client_min_messages"))
        .map((message) => (JSON.parse(message.slice(message.indexOf("{"))) as { Plan: PlanNode }).Plan)
        .filter((plan) => !nodesOf(plan).some((node) => node["Subplan Name"] === "CTE lane_count"));
    },
  };
}

export function nodesOf(plan: PlanNode): PlanNode[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

/** Pages that a node and its children read. */
export function pagesOf(node: PlanNode | undefined): number {
  return (node?.["Shared Hit Blocks"] ?? 0) + (node?.["Shared Read Blocks"] ?? 0);
}
