import type { JobSummary } from "holdfast/admin";

const COLUMNS = [
  "id",
  "state",
  "type",
  "queue",
  "user",
  "priority",
  "attempt",
  "maxAttempts",
  "createdAt",
  "dueAt",
  "startedAt",
  "finishedAt",
  "worker",
  "key",
  "tags",
  "schedule",
  "parent",
  "error",
] as const;

/** Spreadsheets run a cell that begins with one of these as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

export function toCsv(jobs: readonly JobSummary[]): string {
  const lines = jobs.map((job) => COLUMNS.map((column) => cell(valueOf(job, column))).join(","));
  return `${[COLUMNS.join(","), ...lines].join("\r\n")}\r\n`;
}

function valueOf(job: JobSummary, column: (typeof COLUMNS)[number]): string | number | null {
  if (column === "tags") return job.tags.join(" ");
  if (column === "schedule") return job.schedule?.name ?? null;
  if (column === "error") return job.error?.message ?? null;
  return job[column];
}

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  // With the apostrophe it is a string.
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Saves a file that is made on this page. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function exportJobs(jobs: readonly JobSummary[], format: "json" | "csv"): void {
  const name = `jobs-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${format}`;
  if (format === "csv") download(name, "text/csv", toCsv(jobs));
  else download(name, "application/json", `${JSON.stringify(jobs, null, 2)}\n`);
}
