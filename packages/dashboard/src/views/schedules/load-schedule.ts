import type { ScheduleResult } from "holdfast/admin";
import { loadText, payloadOf } from "../../app/stored-text.js";
import { formatJson } from "../../ui/json-model.js";

export interface LoadedSchedule extends ScheduleResult {
  /** Its input with all digits of its numbers, indented. Empty: none. */
  inputText: string;
}

export async function loadSchedule(name: string): Promise<LoadedSchedule> {
  const [schedule, json] = await loadText((client) => client.schedules.get({ name }));
  const { text, node } = payloadOf(json, "input");
  return { ...schedule, inputText: text === "null" ? "" : formatJson(text, node) };
}
