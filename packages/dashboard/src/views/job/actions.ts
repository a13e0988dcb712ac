import type { JobDetail } from "holdfast/admin";
import { api, may, mayChangeOwn } from "../../app/api.js";
import { go } from "../../app/router.js";
import { jobHref } from "../../app/links.js";
import type { Roles } from "./offered.js";
import { act, toast } from "../../app/toasts.js";

export function roles(): Roles {
  return { operator: may("operator"), admin: may("admin"), own: mayChangeOwn() };
}

/** Runs an action that needs no further question. Returns whether it succeeded. */
export async function runAction(
  name: "retry" | "promote" | "cancel" | "rerun-same" | "delete",
  job: JobDetail,
): Promise<boolean> {
  const { id, dueAt } = job;
  switch (name) {
    case "retry":
      return act(() => api.jobs.retry({ id }), "The job is due again, with fresh attempts.");
    case "promote":
      return act(
        () => api.jobs.promote({ id }),
        "The job is due now.",
        dueAt === null
          ? undefined
          : () => void act(() => api.jobs.update({ id, runAt: dueAt }), "The job has its former time."),
      );
    case "cancel": {
      let isRequested = false;
      const isDone = await act(async () => {
        isRequested = (await api.jobs.cancel({ id })).status === "requested";
      });
      if (isDone) toast(isRequested ? "The job was asked to stop." : "The job is cancelled.");
      return isDone;
    }
    case "rerun-same":
      return act(async () => openCopy((await api.jobs.rerun({ id })).id), "A new job has the same input.");
    case "delete":
      return act(() => api.jobs.remove({ id }), "The job is deleted.");
  }
}

export function openCopy(id: string): void {
  go(jobHref(id));
}
