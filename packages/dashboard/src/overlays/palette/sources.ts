// Everything that the palette can open or do, for this role.
import type { ScheduleSummary } from "holdfast/admin";
import { api, may, session, signedOut } from "../../app/api.js";
import { number, relative } from "../../app/format.js";
import { jobsHref, scheduleHref } from "../../app/links.js";
import { isPaused, stats } from "../../app/live.js";
import { now } from "../../app/now.js";
import { hrefOf } from "../../app/router.js";
import { loadSchedules } from "../../app/schedules.js";
import { nextTheme } from "../../app/theme.js";
import { act } from "../../app/toasts.js";
import type { IconName } from "../../ui/icon.js";
import { isShown, VIEWS } from "../../shell.js";
import type { Entry } from "./entries.js";

const STATES = ["running", "failed", "dead", "pending"] as const;

export interface Loaded {
  schedules: readonly ScheduleSummary[];
  types: readonly string[];
}

/** What is not on the page already. */
export async function loadSources(text: string): Promise<Loaded> {
  if (!may("viewer")) return { schedules: [], types: [] };
  const [{ schedules }, { types }] = await Promise.all([loadSchedules(api, text), api.types.list()]);
  return { schedules, types };
}

export function allEntries({ schedules, types }: Loaded): Entry[] {
  const counts = stats.value;
  const views = Object.entries(VIEWS)
    .filter(([, line]) => isShown(line))
    .map(([name, { title, icon }]): Entry => ({
      group: "Go to",
      icon,
      text: title,
      about: "View",
      href: hrefOf(`/${name}`),
    }));
  const total = (name: string, from: Readonly<Record<string, Record<string, number>>> | undefined): string => {
    const states = from !== undefined && Object.hasOwn(from, name) ? from[name] : undefined;
    return states === undefined ? "" : number(Object.values(states).reduce((sum, value) => sum + value, 0));
  };
  return [
    ...views,
    ...actions(schedules),
    ...STATES.map((state): Entry => ({
      group: "Go to",
      icon: state,
      text: `${state.charAt(0).toUpperCase()}${state.slice(1)} jobs`,
      about: counts === null ? "" : number(counts.states[state]),
      href: jobsHref({ state }),
    })),
    ...schedules.map(({ name, enabled, nextRunAt }): Entry => ({
      group: "Go to",
      icon: "schedules",
      text: `Schedule ${name}`,
      about: !enabled ? "off" : nextRunAt === null ? "" : relative(Date.parse(nextRunAt), now.value),
      href: scheduleHref(name),
    })),
    ...Object.keys(counts?.queues ?? {}).map((queue): Entry => ({
      group: "Go to",
      icon: "queues",
      text: `Queue ${queue}`,
      about: total(queue, counts?.queues),
      href: jobsHref({ queue }),
    })),
    ...[...new Set([...types, ...Object.keys(counts?.types ?? {})])].map((type): Entry => ({
      group: "Go to",
      icon: "jobs",
      text: `Jobs of type ${type}`,
      about: total(type, counts?.types),
      href: jobsHref({ type }),
    })),
  ];
}

function actions(schedules: readonly ScheduleSummary[]): Entry[] {
  const action = (icon: IconName, text: string, rest: Pick<Entry, "href" | "run" | "about">): Entry => ({
    group: "Actions",
    icon,
    text,
    ...rest,
  });
  const paused = isPaused.value;
  return [
    action("theme", "Switch between light and dark", { run: nextTheme, about: "t" }),
    action(paused ? "play" : "pause", `${paused ? "Resume" : "Pause"} live updates`, {
      run: () => (isPaused.value = !paused),
      about: "p",
    }),
    ...(may("operator")
      ? [
          action("plus", "New schedule…", { href: hrefOf("/schedules", { new: "1" }) }),
          ...schedules.flatMap(({ name }) => [
            action("play", `Run ${name} now`, {
              run: () => act(() => api.schedules.run({ name }), `Enqueued a job of ${name}.`),
            }),
            action("edit", `Edit schedule ${name}…`, { href: hrefOf("/schedules", { edit: name }) }),
          ]),
        ]
      : []),
    ...(may("admin") ? [action("tokens", "New API token…", { href: hrefOf("/tokens", { new: "1" }) })] : []),
    ...(canSignOut() ? [action("lock", "Sign out", { run: signOut })] : []),
  ];
}

/** Requests without a session cookie cannot end one: there is no login, or the application has its own. */
export function canSignOut(): boolean {
  const { value } = session;
  return typeof value === "object" && value.expiresAt !== null;
}

export async function signOut(): Promise<void> {
  if (await act(() => api.session.end())) signedOut();
}
