import { api } from "./api.js";
import { act } from "./toasts.js";

/** Resumes a queue, with Undo; null: all of them. */
export async function resumeQueue(queue: string | null, onChanged: () => unknown): Promise<void> {
  const [resume, pause] =
    queue === null
      ? [() => api.queues.resumeAll({}), () => api.queues.pauseAll({})]
      : [() => api.queues.resume({ queue }), () => api.queues.pause({ queue })];
  const what = queue === null ? "All queues are" : `Queue ${queue} is`;
  await act(resume, `${what} resumed.`, () => void act(pause).then(onChanged));
  await onChanged();
}
