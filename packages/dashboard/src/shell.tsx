import { signal } from "./app/signals.js";
import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { api, connection, hasExpired, may, refusal, session } from "./app/api.js";
import { clock, short } from "./app/format.js";
import { addShortcuts, startKeys } from "./app/keys.js";
import { isPaused, stats } from "./app/live.js";
import { now } from "./app/now.js";
import { go, hrefOf, listHref, route } from "./app/router.js";
import { nextTheme, theme } from "./app/theme.js";
import { announced, toast } from "./app/toasts.js";
import { Button } from "./ui/button.js";
import { Icon, type IconName } from "./ui/icon.js";
import { Logo } from "./ui/logo.js";
import { Skeleton } from "./ui/page-states.js";
import { Toasts } from "./ui/toasts.js";
import Jobs from "./views/jobs.js";
import Overview from "./views/overview.js";

interface ViewLine {
  title: string;
  icon: IconName;
  /** The lowest role that sees it. */
  role: "user" | "viewer" | "admin";
  /** Those of the first page need not be loaded. */
  load?: () => Promise<ComponentType>;
  /** Views of one thing, below the list: `/jobs/:id`. */
  loadOne?: () => Promise<ComponentType>;
}

const ofJob = () => import("./job.js");
const more = () => import("./more.js");

/** The views, by the first part of their path. */
export const VIEWS: Readonly<Record<string, ViewLine>> = {
  "": { title: "Overview", icon: "overview", role: "viewer" },
  jobs: { title: "Jobs", icon: "jobs", role: "user", loadOne: async () => (await ofJob()).Job },
  failures: { title: "Failures", icon: "failures", role: "viewer", load: async () => (await more()).Failures },
  schedules: {
    title: "Schedules",
    icon: "schedules",
    role: "viewer",
    load: async () => (await more()).Schedules,
    loadOne: async () => (await more()).Schedule,
  },
  queues: { title: "Queues", icon: "queues", role: "viewer", load: async () => (await more()).Queues },
  workers: { title: "Workers", icon: "workers", role: "viewer", load: async () => (await more()).Workers },
  audit: { title: "Audit log", icon: "audit", role: "admin", load: async () => (await more()).Audit },
  tokens: { title: "API tokens", icon: "tokens", role: "admin", load: async () => (await more()).Tokens },
};

/** The groups of the navigation. */
const GROUPS = [
  ["", "jobs", "failures"],
  ["schedules", "queues", "workers"],
  ["audit", "tokens"],
] as const;

export function isShown({ role }: ViewLine): boolean {
  return role === "user" ? typeof session.value === "object" : may(role);
}

const loaded = signal<ReadonlyMap<string, ComponentType>>(
  new Map([
    ["", Overview],
    ["jobs", Jobs],
  ]),
);
const failed = signal<string | null>(null);

const NOT_LOADED = "This part of the page could not be loaded. The server may have a newer version of it.";

/** The component of a view; undefined while it is loaded. */
function viewOf(name: string, line: ViewLine, isOne: boolean): ComponentType | undefined {
  const key = isOne ? `${name}/` : name;
  const known = loaded.value.get(key);
  if (known === undefined && failed.value !== key) {
    const load = isOne ? line.loadOne : line.load;
    load?.().then(
      (View) => (loaded.value = new Map(loaded.value).set(key, View)),
      // The server does not respond, or it has a newer version and no longer these files.
      () => (failed.value = key),
    );
  }
  return known;
}

export function Shell(): JSX.Element {
  const { value: who } = session;
  useEffect(() => {
    startKeys(openPalette);
    return addShortcuts([
      { key: "?", about: "Show the shortcuts", run: () => void openOverlay("keys") },
      { key: "p", about: "Pause or resume live updates", run: () => (isPaused.value = !isPaused.value) },
      { key: "t", about: "Switch between light and dark", run: nextTheme },
    ]);
  }, []);
  if (who === "loading")
    return <p class="starting">{refusal.value ?? (connection.value.online ? "" : "The server does not respond.")}</p>;
  if (who === "none") return <Login />;
  return (
    <div class={`app ${connection.value.online ? "" : "stale"}`}>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <Sidebar />
      <div class="main">
        <Banner />
        <Page />
      </div>
      <TabBar />
      <Toasts />
      <p class="sr" role="status">
        {announced.value}
      </p>
      <Overlay />
    </div>
  );
}

function Page(): JSX.Element {
  const [name = "", one] = route.value.parts;
  const line = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  const isOne = one !== undefined;
  // A user sees only their jobs.
  const mustLeave = name === "" && line !== undefined && !isShown(line);
  useEffect(() => {
    if (mustLeave) go(hrefOf("/jobs"), { replace: true });
  }, [mustLeave]);
  if (mustLeave) return <></>;
  if (line === undefined || !isShown(line) || (isOne && line.loadOne === undefined)) {
    return (
      <>
        <Top title="Not found" />
        <main class="page" id="content">
          <p>
            This page does not exist, or your role may not see it.{" "}
            <a class="link" href={hrefOf("/")}>
              Go to the start
            </a>
          </p>
        </main>
      </>
    );
  }
  const View = viewOf(name, line, isOne);
  document.title = `${isOne ? `${one} · ` : ""}${line.title} · Holdfast`;
  return (
    <>
      <Top title={line.title} {...(isOne && { one, parent: listHref(name) })} />
      <main class="page" id="content" tabIndex={-1}>
        {View !== undefined ? <View key={route.value.path} /> : failed.value === null ? <Skeleton /> : <Outdated />}
      </main>
    </>
  );
}

function Outdated(): JSX.Element {
  return (
    <div class="empty">
      <Icon name="retry" />
      <h2>{NOT_LOADED}</h2>
      <Button onClick={() => location.reload()}>Load it again</Button>
    </div>
  );
}

function Top({ title, one, parent }: { title: string; one?: string; parent?: string }): JSX.Element {
  return (
    <header class="top">
      <div class="crumb">
        {one === undefined ? (
          <h1>{title}</h1>
        ) : (
          <>
            <a href={parent ?? hrefOf("/")} class="t2">
              {title}
            </a>
            <span class="sep">/</span>
            <h1 class="cut" title={one}>
              {one}
            </h1>
          </>
        )}
      </div>
      <button
        type="button"
        class="find push"
        onClick={openPalette}
        title="Search or jump to…"
        aria-keyshortcuts={isMac() ? "Meta+K" : "Control+K"}
      >
        <Icon name="search" />
        <span>Search or jump to…</span>
        <kbd class="kbd" aria-hidden="true">
          {isMac() ? "⌘K" : "Ctrl K"}
        </kbd>
      </button>
      <LiveButton />
      {may("operator") && (
        <Button icon="plus" label="Enqueue" title="Enqueue a job" onClick={() => void openOverlay("enqueue")}>
          Enqueue
        </Button>
      )}
    </header>
  );
}

function LiveButton(): JSX.Element {
  const isOn = !isPaused.value;
  if (!connection.value.online || hasExpired.value) {
    return (
      <span class="live">
        <Icon name="offline" />
        <span class="wide-only">Offline</span>
      </span>
    );
  }
  return (
    <button
      type="button"
      class={`live ${isOn ? "s-completed" : "s-failed"}`}
      aria-pressed={isOn}
      title={`${isOn ? "Pause" : "Resume"} live updates (p)`}
      onClick={() => (isPaused.value = isOn)}
    >
      {isOn ? <span class="dot pulse" /> : <Icon name="pause" />}
      <span class="wide-only">{isOn ? "Live" : "Paused"}</span>
    </button>
  );
}

function Sidebar(): JSX.Element {
  const { value: who } = session;
  return (
    <aside class="side">
      <a class="brand" href={hrefOf("/")}>
        <Logo />
        <span>Holdfast</span>
      </a>
      {GROUPS.map((names, at) => {
        const shown = names.filter((name) => isShown(VIEWS[name] as ViewLine));
        return (
          shown.length > 0 && (
            <nav key={at} class="nav" aria-label={["Jobs", "System", "Administration"][at]}>
              {shown.map((name) => (
                <NavLink key={name} name={name} />
              ))}
            </nav>
          )
        );
      })}
      <div class="side-foot">
        <button type="button" onClick={nextTheme} title="Switch the theme (t)">
          <Icon name="theme" />
          <span class="lb">{{ system: "System theme", light: "Light theme", dark: "Dark theme" }[theme.value]}</span>
        </button>
        {typeof who === "object" && (
          <button type="button" onClick={() => void openOverlay("account")} title={`${who.name}, ${who.role}`}>
            <span class="avatar">{who.name.charAt(0).toUpperCase()}</span>
            <span class="lb cut">
              {who.name} · {who.role}
            </span>
          </button>
        )}
      </div>
    </aside>
  );
}

function NavLink({ name }: { name: string }): JSX.Element {
  const line = VIEWS[name] as ViewLine;
  const isCurrent = (route.value.parts[0] ?? "") === name;
  const dead = name === "failures" ? (stats.value?.states.dead ?? 0) : 0;
  return (
    <a href={hrefOf(`/${name}`)} title={line.title} aria-current={isCurrent ? "page" : undefined}>
      <Icon name={line.icon} />
      <span class="lb">{line.title}</span>
      {dead > 0 && (
        <span class="n bad" title={`${dead} dead jobs`}>
          {short(dead)}
        </span>
      )}
      {name === "queues" && stats.value?.paused === true && (
        <span class="n warn" title="All queues are paused">
          <Icon name="pause" />
        </span>
      )}
    </a>
  );
}

/** At the bottom of narrow screens. */
function TabBar(): JSX.Element {
  const names = (["", "jobs", "failures", "schedules"] as const).filter((name) => isShown(VIEWS[name] as ViewLine));
  return (
    <nav class="tabbar" aria-label="Main">
      {names.map((name) => {
        const { title, icon } = VIEWS[name] as ViewLine;
        return (
          <a
            key={name}
            href={hrefOf(`/${name}`)}
            aria-current={(route.value.parts[0] ?? "") === name ? "page" : undefined}
          >
            <Icon name={icon} />
            {title}
          </a>
        );
      })}
      <button type="button" onClick={() => void openOverlay("account")}>
        <Icon name="more" />
        More
      </button>
    </nav>
  );
}

/** Says why the page does not change: no server, no session, or only reading is allowed. */
function Banner(): JSX.Element | null {
  const { value: state } = connection;
  if (!state.online) {
    const seconds = Math.max(0, Math.ceil((state.retryAt - now.value) / 1_000));
    return (
      <div class="banner s-failed" role="alert">
        <Icon name="offline" />
        <span>
          <b>No connection to the server.</b> You see the state of {clock(state.since)}.{" "}
          {/* Not read aloud each second. */}
          <span aria-hidden="true">{seconds > 0 ? `Next try in ${seconds} s.` : "Trying…"}</span>
        </span>
        <Button class="push" small icon="retry" onClick={() => api.session.get().catch(() => {})}>
          Try now
        </Button>
      </div>
    );
  }
  if (hasExpired.value) {
    return (
      <div class="banner s-failed" role="alert">
        <Icon name="lock" />
        <span>
          <b>Your session has expired.</b> This page is kept.
        </span>
        <Button class="push" small onClick={() => void openOverlay("login")}>
          Sign in
        </Button>
      </div>
    );
  }
  return null;
}

function isMac(): boolean {
  return navigator.platform.startsWith("Mac");
}

/** What is shown above the page. Its module is loaded when it is first opened. */
type OverlayName = "palette" | "keys" | "enqueue" | "account" | "login";
type OverlayView = ComponentType<{ onClose: () => void }>;
const overlay = signal<{ name: OverlayName; View: OverlayView } | null>(null);
const OVERLAYS: Readonly<Record<OverlayName, () => Promise<OverlayView>>> = {
  palette: async () => (await more()).Palette,
  keys: async () => (await more()).Shortcuts,
  enqueue: async () => (await ofJob()).Enqueue,
  account: async () => (await more()).Account,
  login: async () => (await more()).LoginAgain,
};

async function openOverlay(name: OverlayName): Promise<void> {
  try {
    overlay.value = { name, View: await OVERLAYS[name]() };
  } catch {
    toast(NOT_LOADED, { kind: "error", action: { label: "Load again", run: () => location.reload() } });
  }
}
function openPalette(): void {
  void openOverlay("palette");
}

function Overlay(): JSX.Element | null {
  if (overlay.value === null) return null;
  const { View } = overlay.value;
  return <View onClose={() => (overlay.value = null)} />;
}

const loginPage = signal<ComponentType | null>(null);
function Login(): JSX.Element {
  const { value: View } = loginPage;
  if (View === null) void more().then((module) => (loginPage.value = module.Login));
  return View === null ? <></> : <View />;
}
